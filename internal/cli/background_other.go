//go:build !linux

package cli

import (
	"context"
	"errors"
	"syscall"
)

// serverProcess is a running server; servers run on Linux only, for now.
type serverProcess struct{ pid int }

var errNoServers = errors.New("servers run on Linux hosts only, for now: use the one of another host with RIGS_SERVER and RIGS_TOKEN")

func findServer(context.Context, string) (*serverProcess, error) { return nil, errNoServers }

func (p *serverProcess) signal(syscall.Signal) error { return errNoServers }
func (p *serverProcess) wait(context.Context) error  { return errNoServers }

// Close forgets the process.
func (p *serverProcess) Close() {}
