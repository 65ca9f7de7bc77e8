# Spack recipe of h5scr. How to use it: docs/packaging/README.md.
from spack.package import *


class H5scr(CMakePackage):
    """Scalable checkpoint/restart for HDF5 and MPI-IO programs that nobody has to modify: checkpoints go to
    node-local storage, are protected against the loss of nodes, and are copied to the parallel file system in the
    background."""

    # There is no release to download yet: `spack dev-build` builds a clone.
    version("main")

    license("BSD-3-Clause")

    variant("hdf5", default=True, description="Build the HDF5 driver and what looks into HDF5 files")
    variant("fortran", default=True, description="Build the Fortran face of the native API")
    variant("tests", default=False, description="Build the tests and benchmarks")
    variant(
        "system_config",
        default="/etc/scr/scr.conf",
        description="Path of the system configuration file",
        values=lambda path: path.startswith("/"),
    )

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.22:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.9:", type=("build", "run"))  # man pages; scr.py

    depends_on("mpi@3.1:")
    depends_on("hdf5@1.14.0:1.14+mpi", when="+hdf5")
    depends_on("isa-l")
    depends_on("libsodium")
    depends_on("fmt@9:")
    depends_on("asio@1.22.1:", type="build")
    depends_on("nlohmann-json@3.11:", type="build")
    depends_on("cli11@2.1:", type="build")
    depends_on("googletest@1.12:+gmock", type=("build", "link"), when="+tests")
    depends_on("benchmark@1.7:", type=("build", "link"), when="+tests")

    conflicts("%gcc@:10", msg="h5scr needs C++20")
    conflicts("%clang@:13", msg="h5scr needs C++20")
    conflicts("+tests", when="~fortran", msg="the tests have Fortran programs")
    conflicts("platform=darwin", msg="h5scr is for Linux")

    def cmake_args(self):
        spec = self.spec
        args = [
            self.define_from_variant("H5SCR_HDF5", "hdf5"),
            self.define_from_variant("H5SCR_BUILD_TESTS", "tests"),
            self.define_from_variant("H5SCR_SYSTEM_CONFIG", "system_config"),
            self.define("MPI_C_COMPILER", spec["mpi"].mpicc),
            self.define("MPI_CXX_COMPILER", spec["mpi"].mpicxx),
            # Headers of an HDF5 1.10 that happen to be on the system are not for us.
            self.define("HDF5_LEGACY_INCLUDE_DIR", "OFF"),
        ]
        if spec.satisfies("+hdf5"):
            args.append(self.define("HDF5_ROOT", spec["hdf5"].prefix))
        if spec.satisfies("+fortran"):
            args.append(self.define("MPI_Fortran_COMPILER", spec["mpi"].mpifc))
        else:
            args.append(self.define("CMAKE_Fortran_COMPILER", "CMAKE_Fortran_COMPILER-NOTFOUND"))
        return args

    @property
    def plugin_directory(self):
        return join_path(self.prefix.lib, "h5scr", "plugin")

    # HDF5_DRIVER is not set here: without the plug-in in reach every HDF5 call fails. scr_run sets it.
    def setup_run_environment(self, env):
        if self.spec.satisfies("+hdf5"):
            env.prepend_path("HDF5_PLUGIN_PATH", self.plugin_directory)
        env.prepend_path("LD_LIBRARY_PATH", self.prefix.lib)
        env.prepend_path("PYTHONPATH", join_path(self.prefix.lib, "python"))

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_commands(self):
        Executable(self.prefix.bin.scr_test_runtime)("--help")
        Executable(self.prefix.bin.scr_print_config)()
