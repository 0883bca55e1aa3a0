package api

import (
	"io/fs"
	"net/http"
	"path"
	"strings"

	"rigs/internal/rig"
	"rigs/internal/wire"
)

// pagePolicy is the page's content security policy. xterm.js makes style
// elements, hence the inline styles; scripts are files of ours only.
const pagePolicy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; " +
	"object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

const notBuilt = `<!doctype html><meta charset=utf-8><title>Rigs</title>
<h1>The page has not been built</h1>
<p>This server was compiled without its web page. Everything else works: the command line, and the API at /v1.
<p>To have the page, run <code>make build</code> and start the server again.
`

// page serves the files of the page; every other address is the page itself,
// which finds its way from there.
func page(dist fs.FS) http.Handler {
	files := http.FileServerFS(dist)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			p := rig.Errorf(rig.CodeInvalidRequest, "there is no %s %s", r.Method, r.URL.Path)
			p.Status = http.StatusMethodNotAllowed
			wire.WriteProblem(w, p)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", pagePolicy)
		name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
		fi, err := fs.Stat(dist, name)
		isFile := err == nil && fi.Mode().IsRegular() && !strings.HasPrefix(path.Base(name), ".") && name != "index.html"
		switch {
		case isFile && strings.HasPrefix(name, "assets/"):
			h.Set("Cache-Control", "public, max-age=31536000, immutable") // their names hold their hashes
			files.ServeHTTP(w, r)
		case isFile:
			h.Set("Cache-Control", "no-cache")
			files.ServeHTTP(w, r)
		case strings.HasPrefix(name, "assets/"):
			notFound(w, r)
		default:
			index(w, r, dist)
		}
	})
}

func index(w http.ResponseWriter, r *http.Request, dist fs.FS) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	b, err := fs.ReadFile(dist, "index.html")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		b = []byte(notBuilt)
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(b) // the browser may be gone
	}
}
