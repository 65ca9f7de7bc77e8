! Constants of the native API for Fortran programs that do not use the module.
      integer SCR_SUCCESS, SCR_FAILURE, SCR_MAX_FILENAME
      integer SCR_FLAG_NONE, SCR_FLAG_CHECKPOINT, SCR_FLAG_OUTPUT
      parameter (SCR_SUCCESS=0, SCR_FAILURE=1, SCR_MAX_FILENAME=1024)
      parameter (SCR_FLAG_NONE=0, SCR_FLAG_CHECKPOINT=1)
      parameter (SCR_FLAG_OUTPUT=2)
