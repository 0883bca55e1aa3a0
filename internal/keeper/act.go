package keeper

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"rigs/internal/guestapi"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

// maxActBody bounds POST /v1/act: a file's content as JSON, in which a byte can take
// six.
const maxActBody = 8 << 20

// serveAct does one action.
func (k *keeper) serveAct(w http.ResponseWriter, r *http.Request) error {
	var raw json.RawMessage
	if err := readBody(w, r, maxActBody, &raw); err != nil {
		return err
	}
	act, err := rig.ParseAction(k.cfg.Machine.Surface, raw)
	if err != nil {
		return err
	}
	out, err := k.act(r.Context(), act)
	if err == nil {
		wire.WriteJSON(w, out)
	}
	return err
}

func (k *keeper) act(ctx context.Context, act rig.Action) (out keeperapi.ActResult, err error) {
	out.Verb = act.Verb.Name
	switch a := act.Args.(type) {
	case *rig.ExecArgs:
		var res keeperapi.ExecResult
		res, err = k.collect(ctx, keeperapi.ExecCollect{
			ExecRequest: guestapi.ExecRequest{Argv: a.Argv, Shell: a.Shell, Cwd: a.Cwd, Env: a.Env, TimeoutSeconds: cmp.Or(a.Timeout, rig.DefaultExecTimeout)},
			Input:       []byte(a.Stdin), Limit: keeperapi.MaxCollect,
		})
		out.Exec = &res
	case *rig.ReadFileArgs:
		out.File, err = askGuest(ctx, k, "/v1/read", guestapi.ReadFile{Path: a.Path, Offset: a.Offset, Limit: cmp.Or(a.Limit, rig.DefaultReadLimit)}, fileText)
	case *rig.WriteFileArgs:
		var mode uint32
		if mode, err = a.Perm(); err != nil {
			return out, err
		}
		out.Written, err = askGuest(ctx, k, "/v1/write", guestapi.WriteFile{Path: a.Path, Data: a.Data(), Mode: mode, Append: a.Append},
			func(_ guestapi.WriteFile, i guestapi.FileInfo) (*guestapi.FileInfo, error) { return &i, checkInfo(i) })
	case *rig.ListDirArgs:
		out.Dir, err = askGuest(ctx, k, "/v1/list", guestapi.ListDir{Path: cmp.Or(a.Path, "~"), Limit: cmp.Or(a.Limit, rig.DefaultListLimit)}, listing)
	case *rig.ScreenArgs:
		out.Screen, err = askGuest(ctx, k, "/v1/screen", guestapi.ScreenRequest{Session: cmp.Or(a.Session, rig.DefaultSession)}, checkScreen)
	default:
		err = rig.FieldErrorf("verb", "%s cannot be done in this machine", act.Verb.Name)
	}
	return out, err
}

// askGuest asks the guest and takes its answer only as check lets it pass.
func askGuest[I, O, T any](ctx context.Context, k *keeper, path string, in I, check func(I, O) (*T, error)) (*T, error) {
	a, done, err := k.use(ctx, "files")
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var got O
	if err := a.callUpTo(ctx, guestapi.MaxActJSON, http.MethodPost, path, in, &got); err != nil {
		return nil, k.broken(err)
	}
	return check(in, got)
}

func impossible(what, wrong string) error {
	return rig.Errorf(rig.CodeBackendFailure, "the machine's agent described a %s that cannot be: %s", what, wrong)
}

func cleanPath(p string) bool {
	return len(p) <= guestapi.MaxPath && path.IsAbs(p) && path.Clean(p) == p
}

// fileText makes text of a piece of a file, or base64 of what is none.
func fileText(in guestapi.ReadFile, p guestapi.FilePiece) (*keeperapi.FileText, error) {
	switch {
	case !cleanPath(p.Path):
		return nil, impossible("file", "its path is none")
	case p.Size < 0 || p.Offset != in.Offset || len(p.Data) > in.Limit:
		return nil, impossible("file", "it is another piece than the one that was asked for")
	}
	data := p.Data
	if p.More {
		data = wholeRunes(data)
	}
	out := &keeperapi.FileText{Path: p.Path, Size: p.Size, Offset: p.Offset, Content: string(data), Encoding: "text"}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		data = p.Data
		out.Content, out.Encoding = base64.StdEncoding.EncodeToString(data), "base64"
	}
	if p.More {
		out.NextOffset = p.Offset + int64(len(data))
	}
	return out, nil
}

// wholeRunes is b without the beginning of a character at its end, the rest of which
// is in the next piece.
func wholeRunes(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i < len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// listing checks a directory.
func listing(in guestapi.ListDir, d guestapi.Dir) (*keeperapi.Listing, error) {
	if !cleanPath(d.Path) {
		return nil, impossible("directory", "its path is none")
	}
	if len(d.Entries) > in.Limit {
		return nil, impossible("directory", "it has more entries than were asked for")
	}
	out := &keeperapi.Listing{Path: d.Path, Entries: []keeperapi.Entry{}, More: d.More}
	for _, e := range d.Entries {
		if e.Name == "" || len(e.Name) > 4*256 || len(e.Raw) > 256 || strings.ContainsAny(e.Name, "/\x00") || len(e.Target) > 4*guestapi.MaxPath {
			return nil, impossible("directory", "an entry's name is none")
		}
		if !slices.Contains([]string{"file", "dir", "symlink", "other"}, e.Type) || e.Size < 0 || e.Mode&^0o7777 != 0 || e.MTime.Year() < 0 || e.MTime.Year() > 9999 {
			return nil, impossible("directory", "an entry is none")
		}
		out.Entries = append(out.Entries, keeperapi.Entry(e))
	}
	return out, nil
}

// checkScreen checks a screen.
func checkScreen(in guestapi.ScreenRequest, s guestapi.Screen) (*guestapi.Screen, error) {
	const most = 1000 // columns and rows
	switch {
	case s.Session != in.Session:
		return nil, impossible("screen", "it is another terminal's")
	case s.Size.Cols < 1 || s.Size.Rows < 1 || s.Size.Cols > most || s.Size.Rows > most || len(s.Lines) > s.Size.Rows:
		return nil, impossible("screen", "its size is none")
	case s.Cursor.Col < 0 || s.Cursor.Row < 0 || s.Cursor.Col >= s.Size.Cols || s.Cursor.Row >= s.Size.Rows:
		return nil, impossible("screen", "its cursor is outside")
	}
	if s.Lines == nil {
		s.Lines = []string{}
	}
	for _, l := range s.Lines {
		if strings.ContainsFunc(l, func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }) {
			return nil, impossible("screen", "a line holds control characters")
		}
	}
	return &s, nil
}
