// Who the caller is, and the tokens by which he is known where the kernel names nobody.
#pragma once

#include "daemon/http/routes.h"
#include "daemon/http/tokens.h"

namespace carma::daemon {

struct TokenServices {
  Tokens& tokens;
};

// For everybody: nobody is told that he is nobody.
Answer ShowWho(const TokenServices& services, const Call& call);
// Tokens are made, shown and revoked over the Unix socket alone, so that one does not beget others.
// Body: {"name": text, "expires_s": seconds}, both may be absent. 201, with the token.
Answer MakeToken(const TokenServices& services, const Call& call);
// The caller's own; ?all=1: everybody's, for administrators.
Answer ListTokens(const TokenServices& services, const Call& call);
// {id}: of his own, or anybody's for administrators. Answers {}.
Answer RevokeToken(const TokenServices& services, const Call& call);

}  // namespace carma::daemon
