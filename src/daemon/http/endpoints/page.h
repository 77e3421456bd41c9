// Endpoints for the web page and for the data that the page requests every second.
#pragma once

#include <functional>
#include <memory>

#include "daemon/http/endpoints.h"
#include "daemon/loop/cached_response.h"

namespace carma::daemon {

struct PageServices {
  // engine: null before the GPUs are known.
  PageServices(std::function<api::StatusView()> status, const SharedServices& engine);
  // These are shared_ptrs, because each endpoint function has a copy of this struct.
  std::shared_ptr<CachedResponse> overview;
  std::shared_ptr<CachedResponse> users;  // null before the GPUs are known
};

Answer ShowPage(const PageServices& services, const Call& call);
// {id}: the name of a file in page/files.h.
Answer ShowPageFile(const PageServices& services, const Call& call);
Answer ShowOverview(const PageServices& services, const Call& call);
Answer ListUsers(const PageServices& services, const Call& call);

}  // namespace carma::daemon
