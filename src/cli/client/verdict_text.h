// Text about which GPUs can take a waiting task.
#pragma once

#include <string>
#include <vector>

#include "api/explain_view.h"

namespace carma::cli {

// One sentence for all GPUs with the same verdict, regardless of their memory in use.
std::string VerdictsText(const std::vector<api::VerdictView>& verdicts);

}  // namespace carma::cli
