// The estimator of the Horus scheduler (Yeung et al., TPDS 2022), computed as in section 5.3.1 of
// the dissertation: (B A + P) + B G + d. An element of A, P and G has four bytes; d is in MiB.
#include "estimate/estimator.h"
#include "model/features.h"

namespace carma::estimate {
namespace {

constexpr double kMib = 1024.0 * 1024.0;
// The value of d. With this value and G = P, the formula reproduces the published estimates for
// CARMA's 39 tasks (resnet50: 7904 at batch 32, 14910 at 64).
constexpr double kInitialMib = 800;

class Horus : public Estimator {
 public:
  Result<Answer> Ask(const Question& question) const override {
    if (question.layers == nullptr) return NotFound("there is no model summary");
    if (!question.batch) return NotFound("the batch size is unknown");
    const model::Features features = model::Summarize(*question.layers);
    if (features.activations == 0) return NotFound("the summary shows no shapes");
    const auto batch = static_cast<double>(*question.batch);
    const double params_mib = 4 * static_cast<double>(features.params) / kMib;
    const double activations_mib = 4 * static_cast<double>(features.activations) / kMib;
    Answer answer;
    answer.method = "horus";
    answer.terms = {{std::string(kContextTerm), kInitialMib},
                    {"parameters", params_mib},
                    {"activations", batch * activations_mib},
                    {"gradients", batch * params_mib}};
    answer.point_mib = answer.bound_mib = RoundMib(SumOf(answer.terms));
    return answer;
  }
};

}  // namespace

std::unique_ptr<Estimator> MakeHorus() {
  return std::make_unique<Horus>();
}

}  // namespace carma::estimate
