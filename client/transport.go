package client

import (
	"context"
	"net"
	"net/http"
	"net/url"

	"rigs/internal/rig"
)

// Over returns a client whose requests are made by rt, which authenticates them;
// name is how messages name the server. Streams (Exec, Terminal) cannot be had
// over it; Run can.
func Over(rt http.RoundTripper, name string) *Client {
	return &Client{
		base: &url.URL{Scheme: "http", Host: "localhost"}, display: name,
		http: &http.Client{Transport: rt, CheckRedirect: noRedirect},
		dial: func(context.Context) (net.Conn, error) {
			return nil, rig.Errorf(rig.CodeUnavailable, "%s carries no streams", name)
		},
	}
}
