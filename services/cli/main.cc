#include <iostream>

#include "services/cli/command.h"

int main(int argc, char** argv) { return riskkv::cli::Main(argc, argv, std::cout, std::cerr); }
