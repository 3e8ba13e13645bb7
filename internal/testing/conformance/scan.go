package conformance

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A Test is a test function, or a script that a test function runs.
type Test struct {
	File string // path relative to the module's root, with slashes
	Name string // name of the function; empty for a script
}

// String returns the name of the package and of the test.
func (t Test) String() string {
	dir, script, ok := strings.Cut(t.File, "/testdata/")
	if ok {
		return path.Base(dir) + " " + path.Base(script)
	}
	return path.Base(path.Dir(t.File)) + "." + t.Name
}

// tagScanner is the state of a call of Scan.
type tagScanner struct {
	sections   []Section
	files      *token.FileSet
	packages   map[string][]*ast.File // parsed test files, by directory and package name
	suites     map[string][]*ast.File // parsed files of suites, by directory
	suiteCache map[string]bool        // results of isSuite, by directory
	shown      map[string][]Test
}

// Scan reads the tags in a module's test files and test suites. It returns the tests that cover each
// rule, by the rule's ID, sorted by file and name. The error joins all errors, each with its position.
func Scan(module fs.FS, sections []Section) (map[string][]Test, error) {
	s := &tagScanner{sections, token.NewFileSet(), map[string][]*ast.File{}, map[string][]*ast.File{}, map[string]bool{}, map[string][]Test{}}
	err := fs.WalkDir(module, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return skipDir(module, name)
		case !strings.HasSuffix(name, ".go"):
			return nil
		}
		return s.read(module, name)
	})
	if err != nil {
		return nil, err
	}
	shown := s.shown
	var errs []error
	var all []*uses
	for key, p := range s.packages {
		u := usesOf(s.files, p)
		all = append(all, u)
		errs = append(errs, s.tags(p, u.testsAround)...)
		errs = append(errs, scanScripts(module, path.Dir(key), p, sections, shown))
	}
	root := modulePath(module)
	for dir, p := range s.suites {
		u := usesOf(s.files, p)
		errs = append(errs, s.tags(p, func(f *ast.File, c *ast.Comment) (tests []Test) {
			callers := u.exportedAround(f, c, path.Join(root, dir))
			for _, u := range all {
				tests = append(tests, u.testsOf(callers)...)
			}
			return tests
		})...)
	}
	for id, tests := range shown {
		slices.SortFunc(tests, func(a, b Test) int {
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Name, b.Name))
		})
		shown[id] = slices.Compact(tests)
	}
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return shown, errors.Join(errs...)
}

// skipDir returns fs.SkipDir if `go test ./...` does not test the directory: it is hidden, has test
// data, is another module, or is bin, which go.mod excludes. Otherwise it returns nil.
func skipDir(module fs.FS, name string) error {
	if name == "." {
		return nil
	}
	base := path.Base(name)
	if base[0] == '.' || base[0] == '_' || base == "testdata" || name == "bin" {
		return fs.SkipDir
	}
	if _, err := fs.Stat(module, path.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// read parses a Go file, if it is a test file or belongs to a suite.
func (s *tagScanner) read(module fs.FS, name string) error {
	key, in := path.Dir(name), s.suites
	test := strings.HasSuffix(name, "_test.go")
	if !test && !s.isSuite(module, key) {
		return nil
	}
	source, err := fs.ReadFile(module, name)
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(s.files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if test {
		key, in = path.Join(key, f.Name.Name), s.packages
	}
	in[key] = append(in[key], f)
	return nil
}

// isSuite reports whether the package in a directory is a suite for the tests of other packages: a file
// that is not a test file imports testing.
func (s *tagScanner) isSuite(module fs.FS, dir string) bool {
	is, known := s.suiteCache[dir]
	if !known {
		names, _ := fs.Glob(module, path.Join(dir, "*.go"))
		is = slices.ContainsFunc(names, func(name string) bool {
			source, _ := fs.ReadFile(module, name)
			return !strings.HasSuffix(name, "_test.go") && bytes.Contains(source, []byte(`"testing"`))
		})
		s.suiteCache[dir] = is
	}
	return is
}

// modulePath returns the module's path from go.mod, or "" if there is no go.mod.
func modulePath(module fs.FS) string {
	text, _ := fs.ReadFile(module, "go.mod")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// tags reads the tags in the files of a package, and adds the tests that each tag belongs to, which
// around returns, to the rules that the tag names.
func (s *tagScanner) tags(p []*ast.File, around func(*ast.File, *ast.Comment) []Test) []error {
	var errs []error
	for _, f := range p {
		for _, group := range f.Comments {
			for _, c := range group.List {
				for line := range strings.Lines(commentText(c)) {
					ids, err := tagged(s.sections, line)
					if err == nil && ids == nil {
						continue
					}
					tests := around(f, c)
					if err == nil && len(tests) == 0 {
						err = errors.New("no test has or uses what this tag stands in")
					}
					if err != nil {
						errs = append(errs, fmt.Errorf("%s: tag %q: %w", s.files.Position(c.Pos()), strings.TrimSpace(line), err))
						continue
					}
					for _, id := range ids {
						s.shown[id] = append(s.shown[id], tests...)
					}
				}
			}
		}
	}
	return errs
}

func commentText(c *ast.Comment) string {
	if s, ok := strings.CutPrefix(c.Text, "//"); ok {
		return s
	}
	return strings.TrimSuffix(strings.TrimPrefix(c.Text, "/*"), "*/")
}
