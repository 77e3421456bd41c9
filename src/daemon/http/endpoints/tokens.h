// The caller's identity, and tokens for callers that the kernel cannot identify.
#pragma once

#include "daemon/http/routes.h"
#include "daemon/http/tokens.h"

namespace carma::daemon {

struct TokenServices {
  Tokens& tokens;
};

// Shows the caller's identity; an unknown caller gets an answer too.
Answer ShowWho(const TokenServices& services, const Call& call);
// Tokens are made, listed and revoked only over the Unix socket, so that a token cannot make
// others. Body: {"name": text, "expires_s": seconds}, both optional. Answers 201 with the token.
Answer MakeToken(const TokenServices& services, const Call& call);
// Lists the caller's own tokens; with ?all=1, for administrators, those of all users.
Answer ListTokens(const TokenServices& services, const Call& call);
// {id}: users revoke their own, administrators any. Answers {}.
Answer RevokeToken(const TokenServices& services, const Call& call);

}  // namespace carma::daemon
