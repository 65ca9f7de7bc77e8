#!/usr/bin/env bash
# Unmodified programs of netCDF, on libraries of Debian that know nothing of h5scr: PnetCDF, and netCDF-4 on HDF5 1.10.
# One shared file per checkpoint, 8 ranks on 4 nodes.
#
#   netcdf.sh BUILD [case...]     all cases, or those named
source "$(dirname "$0")/lib.sh"

# A run without h5scr, then one with it that is not disturbed, then one that loses a node and restarts from the cache.
undisturbed_and_lost() { # library
  local library=$1 plain file
  begin_client "$library without h5scr"
  plain=$SCR_PREFIX
  plain_client "$clients/netcdf_client" "$library" 60 10
  expect_status 0
  begin_client "$library with h5scr, undisturbed"
  client "$clients/netcdf_client" "$library" 60 10
  expect_status 0
  expect_text "6 files routed .* 6 datasets protected, 6 flushed"
  same_files "$plain"
  begin_client "$library: a node is killed; restart on the spare from rebuilt logs"
  SCR_FLUSH_ASYNC_BW=1 run_and_lose node1 ckpt_0040.nc client "$clients/netcdf_client" "$library" 60 10 50
  client "$clients/netcdf_client" "$library" 60 10
  expect_status 0
  expect_text "restarted from step [345]0"
  expect_text "restored from the cache, 2 rank"
  same_files "$plain"
  expect_verified
}

same_files() { # folder
  local file
  for file in "$1"/ckpt_*.nc; do expect_same_file "$(basename "$file")" "$file"; done
}

case_pnetcdf() { undisturbed_and_lost pnetcdf; }
case_netcdf4() { undisturbed_and_lost netcdf4; }

run_cases "$@"
