package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/internal/testing/pages"
)

var update = flag.Bool("update", false, "write the generated parts of the pages")

// TestPageIsUpToDate checks the generated parts of pages: the endpoints, the codes of faults, and
// the replies to the examples. With -update it writes them.
func TestPageIsUpToDate(t *testing.T) {
	for page, parts := range map[string]map[string]string{
		"control.md":  {"requests": endpoints(false), "codes": codes(t), "replies": replies(t)},
		"selftest.md": {"commands": endpoints(true)},
	} {
		checkPage(t, page, parts)
	}
}

func checkPage(t *testing.T, page string, parts map[string]string) {
	path := "../../../../docs/" + page
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := pages.WithParts(string(got), "control-page", parts)
	if err != nil {
		t.Fatalf("docs/%s: %v", page, err)
	}
	switch {
	case want == string(got):
	case *update:
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/%s is stale, make control-page writes it anew (-is +shall be):\n%s",
			page, cmp.Diff(strings.Split(string(got), "\n"), strings.Split(want, "\n")))
	}
}

// endpoints returns the table of the commands of lst, or of all other endpoints.
func endpoints(lst bool) string {
	var b strings.Builder
	b.WriteString("\n| request | does | body or parameters |\n|---|---|---|\n")
	for _, e := range endpoint.All() {
		if strings.HasPrefix(e.Path, endpoint.LstPath) == lst {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Pattern(), e.Does, takes(e))
		}
	}
	return strings.ReplaceAll(b.String(), "|  |", "| |") + "\n"
}

// takes describes what a request sends.
func takes(e *endpoint.Info) string {
	names := e.Parameters
	switch {
	case e.Takes != "":
		return e.Takes
	case e.Request == reflect.TypeFor[api.Done]():
		return "`{}`"
	case e.Request.Kind() == reflect.Struct:
		for _, f := range reflect.VisibleFields(e.Request) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !f.Anonymous {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "`, `") + "`"
}

// codes returns the table of fault codes: each constant with its comment.
func codes(t *testing.T) string {
	file, err := parser.ParseFile(token.NewFileSet(), "../api/fault.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, d := range file.Decls {
		block, ok := d.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		about := strings.Join(strings.Fields(block.Doc.Text()), " ")
		fmt.Fprintf(&b, "\n%s\n\n", about)
		overHTTP := strings.Contains(about, "requests")
		if overHTTP {
			b.WriteString("| code | status | what happened |\n|---|---|---|\n")
		} else {
			b.WriteString("| code | what happened |\n|---|---|\n")
		}
		for _, s := range block.Specs {
			v := s.(*ast.ValueSpec)
			code, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil || v.Comment == nil {
				t.Fatalf("%s has no text of its own: %v", v.Names[0], err)
			}
			fmt.Fprintf(&b, "| `%s` | ", code)
			if overHTTP {
				fmt.Fprintf(&b, "%d | ", server.StatusOf(api.Code(code)))
			}
			fmt.Fprintf(&b, "%s |\n", strings.TrimSpace(v.Comment.Text()))
		}
	}
	return b.String() + "\n"
}

// replies returns the examples with their replies.
func replies(t *testing.T) string {
	var b strings.Builder
	synctest.Test(t, func(t *testing.T) {
		h := (&server.Server{Backend: exampleDaemon(newLstNode(t).console)}).Handler()
		shown := map[string]bool{}
		for _, e := range examples {
			if e.target == "/v1/lst/query" {
				synctest.Wait() // until the tests have run
			}
			path, _, _ := strings.Cut(e.target, "?")
			shown[e.method+" "+path] = true
			reply := answer(t, h, &e)
			fmt.Fprintf(&b, "\n`%s %s`", e.method, e.target)
			if e.body != "" {
				fmt.Fprintf(&b, " of `%s`", e.body)
			}
			if reply == "{}" {
				b.WriteString(": `{}`\n")
				continue
			}
			fmt.Fprintf(&b, "\n\n```\n%s\n```\n", reply)
		}
		for _, e := range endpoint.All() {
			pattern := e.Pattern()
			if !shown[pattern] {
				t.Errorf("%s has no example", pattern)
			}
			delete(shown, pattern)
		}
		if len(shown) > 0 {
			t.Errorf("examples of what there is not: %v", shown)
		}
	})
	return b.String() + "\n"
}

// answer returns the reply to a request.
func answer(t *testing.T, h http.Handler, e *example) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if e.target == "/v1/lst/hold_session" {
		cancel() // the client that holds the session leaves at once
	}
	r := httptest.NewRequestWithContext(ctx, e.method, e.target, strings.NewReader(e.body))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if media := w.Result().Header.Get("Content-Type"); media == endpoint.Capture.Media {
		return "a file of the type " + media
	}
	d := json.NewDecoder(w.Body)
	d.UseNumber()
	b, err := pretty(d, "")
	if err != nil {
		t.Fatalf("%+v: %v", e, err)
	}
	if e.target == "/v1/lst/stat" { // whether the counters include this request depends on timing
		b = counter.ReplaceAllString(b, "${1}0")
	}
	return b
}

// counter matches a counter of LNet selftest on a node.
var counter = regexp.MustCompile(`("[A-Z]\w+": )\d+`)

// lineMax is the maximum length of a line of a reply, and listMax the maximum number of shown
// elements of a list of numbers.
const (
	lineMax = 110
	listMax = 4
)

// pretty returns the next value as text, on one line if it fits.
func pretty(d *json.Decoder, indent string) (string, error) {
	token, err := d.Token()
	if err != nil {
		return "", err
	}
	open, nested := token.(json.Delim)
	if !nested {
		b, err := json.Marshal(token)
		return string(b), err
	}
	var parts []string
	for d.More() {
		part := ""
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				return "", err
			}
			part = fmt.Sprintf("%q: ", key)
		}
		value, err := pretty(d, indent+"  ")
		if err != nil {
			return "", err
		}
		parts = append(parts, part+value)
	}
	end, err := d.Token()
	if err != nil {
		return "", err
	}
	if len(parts) > listMax && open == '[' && !slices.ContainsFunc(parts, func(p string) bool { return strings.Trim(p, "0123456789") != "" }) {
		parts = append(parts[:listMax], "...")
	}
	line := fmt.Sprintf("%s%s%s", open, strings.Join(parts, ", "), end)
	if len(indent)+len(line) <= lineMax && !strings.Contains(line, "\n") {
		return line, nil
	}
	var b bytes.Buffer
	for k, part := range parts {
		if k > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n" + indent + "  " + part)
	}
	return fmt.Sprintf("%s%s\n%s%s", open, b.String(), indent, end), nil
}
