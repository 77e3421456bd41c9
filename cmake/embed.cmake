# Writes a C++ source that holds INPUT as a string_view, in pieces that every compiler accepts.
file(READ ${INPUT} text)
if(INPUT MATCHES "\\.js$")  # browsers need no comments
  string(REGEX REPLACE "\n *//[^\n]*" "" text "${text}")
endif()
string(LENGTH "${text}" length)
set(pieces "")
set(at 0)
while(at LESS length)
  string(SUBSTRING "${text}" ${at} 8000 piece)
  string(APPEND pieces "R\"carma~(${piece})carma~\"\n")
  math(EXPR at "${at} + 8000")
endwhile()
file(WRITE ${OUTPUT} "#include <string_view>\nnamespace ${NAMESPACE} {\nextern const std::string_view ${SYMBOL};\n"
  "const std::string_view ${SYMBOL} =\n${pieces};\n}  // namespace ${NAMESPACE}\n")
