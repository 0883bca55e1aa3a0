//go:build linux

package stream

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"rigs/internal/guestapi"
	"rigs/internal/rig"
)

var signals = map[string]syscall.Signal{
	"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP,
	"QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH,
	"STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
}

// ParseSignal returns the signal that a client may send under that name.
func ParseSignal(s guestapi.Signal) (syscall.Signal, error) {
	if sig, ok := signals[s.Name]; ok {
		return sig, nil
	}
	return 0, rig.FieldErrorf("name", "unknown signal %.32q: INT, TERM, KILL, HUP, QUIT, USR1, USR2, WINCH, STOP and CONT are known", s.Name)
}

// ExitStatus says how a process ended, as a shell would.
func ExitStatus(ws syscall.WaitStatus) guestapi.ExitStatus {
	if !ws.Signaled() {
		return guestapi.ExitStatus{Code: ws.ExitStatus()}
	}
	name := unix.SignalName(ws.Signal())
	if len(name) > 3 {
		name = name[3:] // without SIG
	} else {
		name = strconv.Itoa(int(ws.Signal()))
	}
	return guestapi.ExitStatus{Code: 128 + int(ws.Signal()), Signal: name}
}
