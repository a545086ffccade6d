#!/usr/bin/env bash
# Installs the build, moves it, and builds programs against it: README's own C++ through CMake and
# through pkg-config, the C API as C99, and a ps-lite program as C++14. They run, too.
#
#   check.sh SOURCE BUILD CC CXX
set -euo pipefail

source_dir="$1" build="$2" cc="$3" cxx="$4"
here="$(mktemp -d)"
trap 'rm -rf "$here"' EXIT
cd "$here"

cmake --install "$build" --prefix "$here/first" > install.log
mv first prefix
export PKG_CONFIG_PATH="$here/prefix/lib/pkgconfig" LD_LIBRARY_PATH="$here/prefix/lib"
# What starts this test must not look like a launcher to the programs.
unset RANK WORLD_SIZE SUMCAST_AGGREGATOR SUMCAST_KEY_FILE SUMCAST_INSECURE MASTER_ADDR

# The first C++ block of README, in a program around it.
snippet="$(sed -n '/^```cpp$/,/^```$/p' "$source_dir/README.md" | sed '/^```/d')"
{
  grep '^#include' <<< "$snippet"
  printf '#include <cstdio>\n#include <vector>\nint main() {\n  std::vector<float> gradients(8, 1.5f);\n'
  grep -v '^#include' <<< "$snippet"
  printf '  std::puts(done ? "done" : done.error().what.c_str());\n'
  printf '  return done && gradients[7] == 1.5f ? 0 : 1;\n}\n'
} > main.cc
cp "$source_dir/tests/install/program.c" "$source_dir/tests/install/ps_program.cc" .
cat > CMakeLists.txt << 'END'
cmake_minimum_required(VERSION 3.20)
project(programs LANGUAGES C CXX)
find_package(sumcast 0.1 REQUIRED)
add_executable(by_cmake main.cc)
target_link_libraries(by_cmake PRIVATE sumcast::sumcast)
add_executable(ps_by_cmake ps_program.cc)
target_link_libraries(ps_by_cmake PRIVATE sumcast::pslite)
END
cmake -S . -B build -DCMAKE_PREFIX_PATH="$here/prefix" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_CXX_COMPILER="$cxx" > configure.log || { cat configure.log; exit 1; }
cmake --build build > build.log || { cat build.log; exit 1; }
# shellcheck disable=SC2046  # Flags are words.
"$cxx" -std=c++20 main.cc $(pkg-config --cflags --libs sumcast) -o by_pkg_config
# shellcheck disable=SC2046
"$cc" -std=c99 -Wall -Wextra -Werror program.c $(pkg-config --cflags --libs sumcast) -o c_by_pkg_config
# shellcheck disable=SC2046
"$cxx" -std=c++14 ps_program.cc $(pkg-config --cflags --libs sumcast-ps) -o ps_by_pkg_config

for program in build/by_cmake by_pkg_config c_by_pkg_config build/ps_by_cmake ps_by_pkg_config; do
  text="$(timeout 60 ./"$program")" || { echo "$program failed: $text"; exit 1; }
  echo "$program: $text"
done
# Man pages, which the programs write, render without a warning; completions are good bash.
for page in man1/sumcast.1 man8/sumcastd.8; do
  file="prefix/share/man/$page"
  grep -q '^\.SH "EXIT STATUS"' "$file" || { echo "$file lacks a section"; exit 1; }
  if command -v man > /dev/null && command -v groff > /dev/null; then
    LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 "$file" > page.txt 2> warnings.txt
    [ ! -s warnings.txt ] || { cat warnings.txt; exit 1; }
  fi
done
for name in sumcast sumcastd; do bash -n "prefix/share/bash-completion/completions/$name"; done
prefix/bin/sumcast --version
prefix/bin/sumcastd --version
