// Recognises error messages of programs that could not initialise CUDA.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace carma::task {

// The last line that reports a failed CUDA initialisation, in printable form; empty if there is
// none. Covers PyTorch, TensorFlow, JAX, and the CUDA runtime and driver. The message does not show
// whether the server or the program is at fault.
std::optional<std::string> FindCudaStartText(std::string_view stderr_tail);

}  // namespace carma::task
