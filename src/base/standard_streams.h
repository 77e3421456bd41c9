// The descriptors 0, 1 and 2 of a program.
#pragma once

namespace carma::base {

// Opens /dev/null for those of 0, 1 and 2 that are closed. The first call of every main: otherwise
// the next file or socket gets such a number, and what is printed lands in it.
void OpenStandardStreams();

}  // namespace carma::base
