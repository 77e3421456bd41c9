// Words of programs that could not begin to use CUDA.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace carma::task {

// The last line that says so, printable, or empty: PyTorch, TensorFlow, JAX, the CUDA run time and
// driver. Whether the server or the program itself is to blame they cannot tell.
std::optional<std::string> FindCudaStartText(std::string_view stderr_tail);

}  // namespace carma::task
