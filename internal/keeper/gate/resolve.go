package gate

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
)

// hostResolver is the host's resolver, hosts file included. Go's own does not find a
// name of one label in that file when it ends in a dot, and without the dot it
// would also try search domains.
type hostResolver struct{}

// hostsFile looks names up in the hosts file and nowhere else.
var hostsFile = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("only the hosts file is asked")
}}

func (hostResolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if label := strings.TrimSuffix(host, "."); !strings.Contains(label, ".") {
		if found, err := hostsFile.LookupNetIP(ctx, network, label); err == nil {
			return found, nil
		}
	}
	return net.DefaultResolver.LookupNetIP(ctx, network, host)
}
