package seal

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func ctime(st *syscall.Stat_t) int64 { return st.Ctim.Nano() }

// nextData returns the first range with data at or after off; size, size if
// there is none.
func nextData(f *os.File, off, size int64) (start, end int64, err error) {
	fd := int(f.Fd())
	start, err = unix.Seek(fd, off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size, size, nil
	case errors.Is(err, unix.EINVAL): // a file system without it
		return off, size, nil
	case err != nil:
		return 0, 0, err
	}
	end, err = unix.Seek(fd, start, unix.SEEK_HOLE)
	return start, min(end, size), err
}
