// Carries the precompiled headers of the unit tests (tests/CMakeLists.txt).
