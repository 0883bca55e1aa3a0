//go:build deps

package deps

import (
	_ "github.com/Microsoft/hcsshim/ext4/tar2ext4"
	_ "github.com/coder/websocket"
	_ "github.com/creack/pty"
	_ "github.com/danielgtaylor/huma/v2"
	_ "github.com/danielgtaylor/huma/v2/adapters/humago"
	_ "github.com/danielgtaylor/huma/v2/sse"
	_ "github.com/erofs/go-erofs"
	_ "github.com/goccy/go-yaml"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/go-containerregistry/pkg/v1/layout"
	_ "github.com/hashicorp/yamux"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/landlock-lsm/go-landlock/landlock"
	_ "github.com/miekg/dns"
	_ "github.com/pressly/goose/v3"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/schollz/progressbar/v3"
	_ "github.com/spf13/cobra"
	_ "github.com/u-root/u-root/pkg/cpio"
	_ "github.com/ulikunitz/xz"
	_ "golang.org/x/net/idna"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "gvisor.dev/gvisor/pkg/tcpip/stack"
	_ "modernc.org/sqlite"
)
