// Describes which GPUs can take a waiting task.
#pragma once

#include <string>
#include <vector>

#include "api/explain_view.h"

namespace carma::cli {

// Writes one sentence for all GPUs with the same verdict, even if they differ in memory in use.
std::string VerdictsText(const std::vector<api::VerdictView>& verdicts);

}  // namespace carma::cli
