// Endpoints for the caller's identity, and for tokens of callers that the kernel cannot identify.
#pragma once

#include "daemon/http/endpoints.h"

namespace carma::daemon {

// Answers with the caller's identity, even if the caller is unknown.
Answer ShowWho(const ServerServices& server, const Call& call);
// Tokens are made, listed and revoked only over the Unix socket, so that a token cannot make other
// tokens. Body: {"name": text, "expires_s": seconds}, both optional. Answers 201 with the token.
Answer MakeToken(const ServerServices& server, const Call& call);
// Lists the caller's own tokens. With ?all=1, only for administrators, lists the tokens of all
// users.
Answer ListTokens(const ServerServices& server, const Call& call);
// {id}: users may revoke their own tokens, administrators any. Answers {}.
Answer RevokeToken(const ServerServices& server, const Call& call);

}  // namespace carma::daemon
