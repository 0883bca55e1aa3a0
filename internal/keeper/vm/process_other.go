//go:build !linux

package vm

import (
	"errors"
	"net"
	"os"
	"os/exec"
)

// errNotHere says that this system has no way to tie a machine's life to its
// keeper's, without which none is started.
var errNotHere = errors.New("machines run on Linux only in this version")

func dieWithThread(*exec.Cmd) {}

func socketPair() (*net.UnixConn, *os.File, error) { return nil, nil, errNotHere }
