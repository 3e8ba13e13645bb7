package conformance

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const ownModule = "github.com/lnetd/lnetd/"

// Given docs/logs.md, then it lists exactly the messages that lnetd logs at warn and above, with their
// levels.
func TestLogsPage(t *testing.T) {
	m := lnetdMessages(t)
	got := map[string]string{}
	for text, levels := range m.found {
		got[text] = strings.Join(slices.Sorted(maps.Keys(levels)), " or ")
	}
	page, err := os.ReadFile(module + "/docs/logs.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([a-z ]+) \\| .+ \\| .+ \\|$").FindAllStringSubmatch(string(page), -1) {
		if _, twice := want[row[1]]; twice {
			t.Errorf("docs/logs.md has %q twice", row[1])
		}
		want[row[1]] = row[2]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/logs.md is not what lnetd logs (-page +code):\n%s", diff)
	}
}

// messages collects the messages that are logged.
type messages struct {
	files *token.FileSet
	errs  []error                    // what could not be read or is no constant
	seen  map[string]bool            // packages
	found map[string]map[string]bool // levels by text, of those that are logged at warn and above
	bare  map[string]bool            // texts from level info on that are logged without a subject and a cause
	dir   string                     // of the package
	texts map[string]string          // its constants, by name
}

// lnetdMessages returns the messages of lnetd.
func lnetdMessages(t *testing.T) *messages {
	t.Helper()
	m := messagesOnce()
	if err := errors.Join(m.errs...); err != nil {
		t.Fatal(err)
	}
	if len(m.seen) < 20 || len(m.found) < 30 || len(m.bare) < 30 {
		t.Fatalf("%d packages, %d and %d messages: the search is broken", len(m.seen), len(m.found), len(m.bare))
	}
	return m
}

// messagesOnce shares the result of parsing all packages of lnetd between tests, since it takes seconds.
var messagesOnce = sync.OnceValue(func() *messages {
	m := &messages{files: token.NewFileSet(), seen: map[string]bool{}, found: map[string]map[string]bool{}, bare: map[string]bool{}}
	m.follow("cmd/lnetd")
	return m
})

// follow reads a package of this module and the packages that it imports.
func (m *messages) follow(dir string) {
	if m.seen[dir] {
		return
	}
	m.seen[dir] = true
	m.dir = dir
	names, err := filepath.Glob(filepath.Join(module, dir, "*.go"))
	if err != nil {
		m.errs = append(m.errs, err)
	}
	var all []*ast.File
	m.texts = map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(m.files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			m.errs = append(m.errs, err)
			continue
		}
		all = append(all, f)
		m.constants(f)
	}
	for _, f := range all {
		ast.Inspect(f, m.look)
	}
	for _, f := range all {
		for _, i := range f.Imports {
			if to, own := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), ownModule); own {
				m.follow(path.Clean(to))
			}
		}
	}
}

// constants records the file's string constants.
func (m *messages) constants(f *ast.File) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v, ok := s.(*ast.ValueSpec)
			if !ok {
				continue
			}
			for k, name := range v.Names {
				if k < len(v.Values) {
					if text, ok := m.constant(v.Values[k]); ok {
						m.texts[name.Name] = text
					}
				}
			}
		}
	}
}

// levelWords are the methods named after a level, and the levels themselves.
var levelWords = map[string]string{
	"Warn": "warn", "Error": "error", "Info": "", "Debug": "", "warn": "warn",
	"LevelWarn": "warn", "LevelError": "error", "LevelInfo": "", "LevelDebug": "",
}

// look inspects a node of a file's syntax tree.
func (m *messages) look(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		m.call(n)
	case *ast.CompositeLit:
		m.line(n)
	case *ast.AssignStmt: // level, text := slog.LevelWarn, "..."
		if len(n.Rhs) == 2 {
			if level, ok := levelOf(n.Rhs[0]); ok {
				m.note(level, n.Rhs[1])
			}
		}
	}
	return true
}

// call handles a call of a logger, or of another function with a level and a text.
func (m *messages) call(n *ast.CallExpr) {
	f, ok := n.Fun.(*ast.SelectorExpr)
	if !ok {
		m.entry(n)
		return
	}
	level, says := levelWords[f.Sel.Name]
	switch {
	case f.Sel.Name == "warn":
		if m.dir == "discovery" && len(n.Args) > 1 {
			m.note(level, n.Args[1])
		}
	case says && len(n.Args) > 0 && logger(f.X):
		m.note(level, n.Args[0])
		if text, ok := m.constant(n.Args[0]); ok && f.Sel.Name != "Debug" {
			m.bare[text] = true
		}
	case f.Sel.Name == "LogPeer" && len(n.Args) > 2: // of a peer
		if level, ok := levelOf(n.Args[1]); ok {
			m.note(level, n.Args[2])
		}
	case (f.Sel.Name == "say" || f.Sel.Name == "log") && len(n.Args) > 1:
		if level, ok := levelOf(n.Args[0]); ok {
			m.note(level, n.Args[1])
		} else if _, constant := m.constant(n.Args[1]); constant {
			m.note("any", n.Args[1])
		}
	}
}

// entry handles text that is written to the journal without a logger.
func (m *messages) entry(n *ast.CallExpr) {
	if f, ok := n.Fun.(*ast.Ident); !ok || f.Name != "appendField" || len(n.Args) != 3 {
		return
	}
	name, _ := m.constant(n.Args[1])
	if _, constant := m.constant(n.Args[2]); constant && name == "LNET_EVENT" {
		m.note("warn", n.Args[2])
	}
}

// line handles a boundedlog.Line.
func (m *messages) line(n *ast.CompositeLit) {
	var level string
	var text ast.Expr
	bare := true
	for _, e := range n.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return
		}
		switch key, _ := kv.Key.(*ast.Ident); {
		case key == nil:
		case key.Name == "Of", key.Name == "Cause":
			bare = false
		case key.Name == "Level":
			level = "any"
			if l, ok := levelOf(kv.Value); ok {
				level = l
			}
		case key.Name == "Text":
			text = kv.Value
		}
	}
	s, constant := m.constant(text)
	if level != "" && (level != "any" || constant) {
		m.note(level, text)
		if constant && bare {
			m.bare[s] = true
		}
	}
}

// note records a message and its level. A level of "" is below warn.
func (m *messages) note(level string, text ast.Expr) {
	s, ok := m.constant(text)
	if !ok {
		m.errs = append(m.errs, fmt.Errorf("%s: the text of a message is no constant", m.files.Position(text.Pos())))
	}
	if level == "" || !ok {
		return
	}
	if level == "any" {
		level = "info or warn"
	}
	if m.found[s] == nil {
		m.found[s] = map[string]bool{}
	}
	m.found[s][level] = true
}

// constant returns the value of an expression that is a constant string.
func (m *messages) constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		a, ok := m.constant(e.X)
		b, also := m.constant(e.Y)
		return a + b, ok && also
	case *ast.Ident:
		s, ok := m.texts[e.Name]
		return s, ok
	}
	return "", false
}

func levelOf(e ast.Expr) (level string, ok bool) {
	if s, is := e.(*ast.SelectorExpr); is && strings.HasPrefix(s.Sel.Name, "Level") {
		level, ok = levelWords[s.Sel.Name]
	}
	return level, ok
}

// logger reports whether an expression is a logger, judging by its name.
func logger(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.EqualFold(e.Name, "log")
	case *ast.SelectorExpr:
		return strings.EqualFold(e.Sel.Name, "log") || e.Sel.Name == "Logger"
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.SelectorExpr)
		return ok && strings.EqualFold(f.Sel.Name, "logger")
	}
	return false
}
