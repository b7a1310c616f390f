"""What an error number of the operating system says, and about whom.

Always: an error of the process or of the machine's memory says nothing about the disk: the call is
refused and may be repeated. Any other error of a disk that is not full costs its log directory.
"""

import errno

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)  # only from calls that open: nothing has happened yet
OUT_OF_RESOURCES = (*NO_DESCRIPTORS, errno.ENOMEM)
