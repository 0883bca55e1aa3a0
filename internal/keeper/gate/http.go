package gate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Bounds of one HTTP request's framing.
const (
	maxHead  = 32 << 10 // as much as the usual servers take
	maxChunk = 1 << 10  // a chunk's size line, or one line of a trailer
)

// upHTTP moves plain HTTP requests, each only after its head was read and judged:
// a kept-alive connection could name another host later. What it reads it passes
// on as it is, never written anew, so it takes only requests whose end cannot be
// understood in two ways.
func (s *session) upHTTP(ctx context.Context, c *connection, upstream net.Conn, guest *guestConn, answer *answerWatch) error {
	r := bufio.NewReader(guest)
	up := &countingWriter{upstream, &c.out, c.touch}
	for first := true; ; first = false {
		head, err := readHead(r, guest, s.gate.cfg.Limits.FirstBytes)
		if errors.Is(err, io.EOF) {
			return nil // it is done
		}
		var req request
		if err == nil {
			req, err = parseHead(head)
		}
		if err == nil {
			err = s.check(c, req.opening)
		}
		if err == nil {
			err = c.sendHead(upstream, head)
		}
		if err == nil {
			err = moveBody(up, r, req)
		}
		if errors.Is(err, errNotHTTP) {
			err = s.check(c, opening{kind: openingOther})
		}
		if err != nil {
			return err
		}
		// Another protocol may follow, if the other end says so; until it has said
		// something, nothing more goes up. It is the first answer only that can be
		// told apart without parsing answers. HTTP/2 is no such protocol: its
		// requests name hosts of their own.
		// None follows through a proxy: who its answer is from cannot be told.
		if first && req.upgrade != "" && c.proxy == nil && answer.switched(ctx) {
			if req.upgrade != "websocket" {
				return s.check(c, opening{kind: openingOther})
			}
			return s.copy(upstream, r, &c.out, c.touch)
		}
	}
}

// sendHead sends the head of a request that was judged.
func (c *connection) sendHead(upstream io.Writer, head []byte) error {
	sent := head
	if c.proxy != nil {
		var err error
		if sent, err = proxyHead(head, c.flow.host, c.proxy); err != nil {
			return err
		}
	}
	_, err := upstream.Write(sent)
	if err == nil {
		c.out.Add(int64(len(head))) // what the guest sent
	}
	c.touch()
	return err
}

// errNotHTTP is for what is not a plain, unambiguous HTTP/1 request.
var errNotHTTP = errors.New("not an unambiguous HTTP request")

// readHead reads a request's head with its empty line. Reading may take for ever
// until the first byte came, and patience from then on.
func readHead(r *bufio.Reader, conn net.Conn, patience time.Duration) ([]byte, error) {
	b, err := r.Peek(1)
	if err != nil {
		return nil, err
	}
	if b[0] < 'A' || b[0] > 'Z' {
		return nil, errNotHTTP // at once: the rest of a method might never come
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	var head []byte
	for {
		line, err := r.ReadSlice('\n')
		head = append(head, line...)
		switch {
		case len(head) > maxHead, err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, errNotHTTP
		case err == nil && len(bytes.TrimRight(line, "\r\n")) == 0:
			return head, conn.SetReadDeadline(time.Time{})
		}
	}
}

// request is what matters of one request.
type request struct {
	opening opening
	length  int64 // of the body
	chunked bool
	upgrade string // lower case; empty without one
}

// parseHead reads a request's head. It is strict where servers are known to
// differ: line ends, folded lines, several hosts, two kinds of length.
func parseHead(head []byte) (request, error) {
	bad := request{opening: opening{kind: openingOther}}
	lines, ok := bytes.CutSuffix(head, []byte("\r\n\r\n"))
	if !ok || bytes.IndexByte(head, 0) >= 0 {
		return bad, errNotHTTP
	}
	counts := map[string]int{}
	for i, line := range bytes.Split(lines, []byte("\r\n")) {
		if len(line) == 0 || bytes.ContainsAny(line, "\r\n") {
			return bad, errNotHTTP
		}
		if i == 0 {
			continue
		}
		name, _, found := bytes.Cut(line, []byte(":"))
		if !found || len(name) == 0 || bytes.ContainsAny(name, " \t") {
			return bad, errNotHTTP // among them folded lines
		}
		field := strings.ToLower(string(name))
		switch strings.ReplaceAll(field, "_", "-") {
		case field:
		case "host", "content-length", "transfer-encoding":
			return bad, errNotHTTP // gateways that make variables of fields read them as the same (RFC 3875 §4.1.18)
		}
		counts[field]++
	}
	if counts["host"] != 1 || counts["content-length"]+counts["transfer-encoding"] > 1 {
		return bad, errNotHTTP
	}
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
	if err != nil || r.ProtoMajor != 1 || r.ProtoMinor > 1 || r.Method == http.MethodConnect {
		return bad, errNotHTTP
	}
	if l := r.Header.Get("Content-Length"); len(l) > 1 && l[0] == '0' {
		return bad, errNotHTTP // an octal number to some
	}
	if counts["transfer-encoding"] == 1 && (r.ProtoMinor == 0 || len(r.TransferEncoding) != 1 || r.TransferEncoding[0] != "chunked") {
		return bad, errNotHTTP
	}
	if r.Method == http.MethodTrace && (r.ContentLength != 0 || counts["transfer-encoding"] > 0) {
		return bad, errNotHTTP // it has no body (RFC 9110 §9.3.8), so what follows would be a request
	}
	req := request{
		opening: opening{kind: openingHTTP, host: hostOnPort80(hostHeader(lines))},
		length:  max(r.ContentLength, 0),
		chunked: len(r.TransferEncoding) == 1,
	}
	if counts["upgrade"] > 0 {
		req.upgrade = strings.ToLower(strings.Join(r.Header["Upgrade"], ","))
	}
	// An absolute target names the host as well, and wins where they differ
	// (RFC 9112 §3.2.2): both must be right.
	if r.URL.Host != "" || r.URL.Scheme != "" {
		if r.URL.Scheme != "http" || r.URL.User != nil || hostOnPort80(r.URL.Host) != req.opening.host || !endsInSlash(r.RequestURI) {
			req.opening.host = ""
		}
	}
	return req, nil
}

// endsInSlash reports whether the authority of an absolute target does, or ends the
// target. Where it ends otherwise ("http://a.test?@b.test/") is a matter of opinion.
func endsInSlash(target string) bool {
	_, rest, _ := strings.Cut(target, "://")
	i := strings.IndexAny(rest, "/?#")
	return i < 0 || rest[i] == '/'
}

// hostHeader returns the value of the one Host line. ReadRequest would return the
// host of an absolute target instead.
func hostHeader(lines []byte) string {
	for line := range bytes.SplitSeq(lines, []byte("\r\n")) {
		if name, value, _ := bytes.Cut(line, []byte(":")); strings.EqualFold(string(name), "host") {
			return strings.Trim(string(value), " \t")
		}
	}
	return ""
}

// hostOnPort80 returns the canonical host of HOST or HOST:80, "" for all else.
func hostOnPort80(s string) string {
	host, port, found := strings.Cut(s, ":")
	if found && port != "80" {
		return ""
	}
	return wireName(host)
}

// moveBody moves a request's body. Where its framing is ambiguous, errNotHTTP comes
// before the bytes in question went up.
func moveBody(up io.Writer, r *bufio.Reader, req request) error {
	if !req.chunked {
		return moveExactly(up, r, req.length)
	}
	for {
		line, err := chunkLine(r)
		if err != nil {
			return err
		}
		size, err := chunkSize(line)
		if err != nil {
			return err
		}
		if _, err := up.Write(line); err != nil {
			return err
		}
		if size == 0 {
			break
		}
		if err := moveExactly(up, r, size); err != nil {
			return err
		}
		if end, err := chunkLine(r); err != nil || len(end) != 2 {
			return errNotHTTP
		} else if _, err := up.Write(end); err != nil {
			return err
		}
	}
	for range 64 { // the trailer
		line, err := chunkLine(r)
		if err != nil {
			return err
		}
		if !trailerLine(line) {
			return errNotHTTP
		}
		if _, err := up.Write(line); err != nil || len(line) == 2 {
			return err
		}
	}
	return errNotHTTP
}

// trailerLine reports whether line is the empty one, or a field that may come
// after a body (RFC 9110 §6.5.1): not one that says what a request is, where it
// ends, or whom it is for, as some servers take those from here, too.
func trailerLine(line []byte) bool {
	if len(line) == 2 {
		return true
	}
	name, _, found := strings.Cut(string(line), ":")
	name = strings.ToLower(name)
	switch name {
	case "", "host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "keep-alive":
		return false
	}
	return found && !strings.ContainsAny(name, " \t") && !strings.HasPrefix(name, "proxy-")
}

// chunkLine reads a short line that ends in CRLF and has no other line end in it.
func chunkLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull), len(line) > maxChunk:
		return nil, errNotHTTP
	case err != nil:
		return nil, io.ErrUnexpectedEOF
	case len(line) < 2 || bytes.IndexByte(line, '\r') != len(line)-2:
		return nil, errNotHTTP
	}
	return line, nil
}

// chunkSize reads a chunk's size line. Extensions are passed on, and mean nothing
// to anybody.
func chunkSize(line []byte) (int64, error) {
	digits, _, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\r\n")), []byte(";"))
	if len(digits) == 0 || len(digits) > 15 {
		return 0, errNotHTTP
	}
	var n int64
	for _, d := range bytes.ToLower(digits) {
		switch {
		case d >= '0' && d <= '9':
			n = n<<4 | int64(d-'0')
		case d >= 'a' && d <= 'f':
			n = n<<4 | int64(d-'a'+10)
		default:
			return 0, errNotHTTP
		}
	}
	return n, nil
}

func moveExactly(dst io.Writer, src io.Reader, n int64) error {
	if n == 0 {
		return nil
	}
	moved, err := io.CopyN(dst, src, n)
	if errors.Is(err, io.EOF) && moved < n {
		return io.ErrUnexpectedEOF
	}
	return err
}

// countingWriter is a connection's upward end.
type countingWriter struct {
	to    io.Writer
	count *atomic.Int64
	touch func()
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.count.Add(int64(n))
	w.touch()
	return n, err
}

// answerWatch passes on what the other end answers and notices whether the first
// answer is the switch to another protocol.
type answerWatch struct {
	to    io.Writer
	start []byte        // of the first answer, up to its status
	known chan struct{} // closed when start is complete, or never will be
}

const switching = "HTTP/1.1 101 "

func newAnswerWatch(to io.Writer) *answerWatch {
	return &answerWatch{to: to, known: make(chan struct{})}
}

func (w *answerWatch) Write(p []byte) (int, error) {
	if missing := len(switching) - len(w.start); missing > 0 && len(p) > 0 {
		w.start = append(w.start, p[:min(missing, len(p))]...)
		if len(w.start) == len(switching) {
			close(w.known)
		}
	}
	return w.to.Write(p)
}

// end says that no more will be answered.
func (w *answerWatch) end() {
	if len(w.start) < len(switching) {
		close(w.known)
	}
}

// switched waits for the first answer. It is false when there is none.
func (w *answerWatch) switched(ctx context.Context) bool {
	select {
	case <-w.known:
		return string(w.start) == switching
	case <-ctx.Done():
		return false
	}
}
