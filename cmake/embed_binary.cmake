# Writes a C++ source that holds the bytes of INPUT as a string_view. The assembler copies them, because the compiler would take
# minutes for string literals of megabytes.
file(SIZE ${INPUT} size)
if(size EQUAL 0)
  message(FATAL_ERROR "${INPUT} is empty")
endif()
file(WRITE ${OUTPUT} "#include <string_view>
asm(\".pushsection .rodata\\n\"
    \".balign 16\\n\"
    \"carma_bytes_${SYMBOL}:\\n\"
    \".incbin \\\"${INPUT}\\\"\\n\"
    \".popsection\\n\");
namespace ${NAMESPACE} {
extern const char ${SYMBOL}Bytes[${size}] asm(\"carma_bytes_${SYMBOL}\");
extern const std::string_view ${SYMBOL};
constinit const std::string_view ${SYMBOL}(${SYMBOL}Bytes, ${size});
}  // namespace ${NAMESPACE}
")
