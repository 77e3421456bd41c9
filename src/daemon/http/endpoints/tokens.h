// Endpoints that show who the caller is, and that manage tokens for callers that the kernel cannot
// identify.
#pragma once

#include "daemon/http/endpoints.h"

namespace carma::daemon {

// Returns the caller's identity. Also works for unknown callers.
Answer ShowWho(const ServerServices& server, const Call& call);
// Tokens can be created, listed and revoked only over the Unix socket, so that a token cannot be
// used to create more tokens. Body: {"name": text, "expires_s": seconds}, both optional. Responds
// with 201 and the token.
Answer MakeToken(const ServerServices& server, const Call& call);
// Lists the caller's own tokens. With ?all=1 lists the tokens of all users, for administrators
// only.
Answer ListTokens(const ServerServices& server, const Call& call);
// {id}: users may revoke only their own tokens, administrators any. Returns {}.
Answer RevokeToken(const ServerServices& server, const Call& call);

}  // namespace carma::daemon
