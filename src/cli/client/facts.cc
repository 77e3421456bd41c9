#include "cli/client/facts.h"

namespace carma::cli {

void Facts::Add(std::string_view label, const std::string& text) {
  if (text.empty()) return;
  constexpr std::size_t kLabelWidth = kFactsIndent - 2;
  text_ += "  ";
  text_ += label;
  text_.append(label.size() < kLabelWidth ? kLabelWidth - label.size() : 1, ' ');
  text_ += text + "\n";
}

}  // namespace carma::cli
