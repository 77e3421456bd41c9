# The house rules of the build: how a room, its tests and a program are declared.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(ZLIB REQUIRED)
find_package(SQLiteCpp REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(Boost 1.81 REQUIRED)

find_program(CARMA_CCACHE ccache)
if(CARMA_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CARMA_CCACHE})
endif()
find_program(CARMA_MOLD mold)
if(CARMA_MOLD AND NOT CARMA_FUZZ)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror=return-type)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports these inside its own <optional>, <variant> and <string> under optimisation.
  add_compile_options(-Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-missing-field-initializers)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wno-missing-field-initializers)
endif()
if(CARMA_SANITIZE)
  add_compile_options(-fsanitize=${CARMA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${CARMA_SANITIZE})
endif()

if(CARMA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage for libFuzzer in every room
endif()

# carma_room(core DEPENDS carma::base [LINK fmt::fmt])
# The folder's *.cc become the library carma::core, its *_test.cc the one test program core_test.
# DEPENDS names rooms further left (tools/check_layers.sh compares it with the includes).
function(carma_room name)
  cmake_parse_arguments(ROOM "" "" "DEPENDS;LINK;TEST_LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(sources)
    add_library(carma_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(carma_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(carma::${name} ALIAS carma_${name})
  target_include_directories(carma_${name} ${scope} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(carma_${name} ${scope} ${ROOM_DEPENDS} ${ROOM_LINK})
  if(tests)
    add_executable(${name}_test ${tests})
    target_compile_definitions(${name}_test PRIVATE CARMA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name}_test PRIVATE carma::${name} ${ROOM_TEST_LINK} GTest::gmock GTest::gtest_main)
    add_test(NAME ${name}_test COMMAND ${name}_test)
    set_tests_properties(${name}_test PROPERTIES TIMEOUT 300)
  endif()
endfunction()

# carma_program(carmad SOURCES carmad.cc DEPENDS carma::daemon): one installed executable.
function(carma_program name)
  cmake_parse_arguments(PROGRAM "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${PROGRAM_SOURCES})
  target_compile_definitions(${name} PRIVATE CARMA_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${name} PRIVATE ${PROGRAM_DEPENDS})
  # Installed beside its libraries (packaging/tarball.sh) it takes those, whatever LD_LIBRARY_PATH says. DT_RPATH, not
  # DT_RUNPATH: the latter is not asked for what the libraries themselves need.
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)
  install(TARGETS ${name} RUNTIME DESTINATION bin)
endfunction()

# carma_embed(carma_simgpu ${PROJECT_SOURCE_DIR}/data/gpus/gpus.csv kGpuTypesCsv carma::simgpu)
# makes `extern const std::string_view kGpuTypesCsv` in the given namespace from a text file.
function(carma_embed target file symbol namespace)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cc)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${file} -DOUTPUT=${out} -DSYMBOL=${symbol} -DNAMESPACE=${namespace}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${file} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()

# The same for a file of any bytes, megabytes too.
function(carma_embed_binary target file symbol namespace)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cc)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${file} -DOUTPUT=${out} -DSYMBOL=${symbol} -DNAMESPACE=${namespace}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_binary.cmake
    DEPENDS ${file} ${PROJECT_SOURCE_DIR}/cmake/embed_binary.cmake VERBATIM)
  set_source_files_properties(${out} PROPERTIES OBJECT_DEPENDS ${file})
  target_sources(${target} PRIVATE ${out})
endfunction()
