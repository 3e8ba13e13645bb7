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
	File string // path from the module's root, with slashes
	Name string // of the function; empty for a script
}

// String returns the name of the test, preceded by that of its package.
func (t Test) String() string {
	dir, script, ok := strings.Cut(t.File, "/testdata/")
	if ok {
		return path.Base(dir) + " " + path.Base(script)
	}
	return path.Base(path.Dir(t.File)) + "." + t.Name
}

// scan is the state of Scan.
type scan struct {
	sections []Section
	files    *token.FileSet
	packages map[string][]*ast.File // of test files, by directory and package name
	suites   map[string][]*ast.File // by directory
	isOne    map[string]bool        // caches isSuite, by directory
	shown    map[string][]Test
}

// Scan reads the tags in a module's test files and test suites. It returns the tests of each rule by the
// rule's ID, sorted by file and name. The error joins those of all files, each with its position.
func Scan(module fs.FS, sections []Section) (map[string][]Test, error) {
	s := &scan{sections, token.NewFileSet(), map[string][]*ast.File{}, map[string][]*ast.File{}, map[string]bool{}, map[string][]Test{}}
	err := fs.WalkDir(module, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return enter(module, name)
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

// enter returns fs.SkipDir for directories that go test ./... skips: hidden directories, test data, other
// modules, and bin, which go.mod excludes.
func enter(module fs.FS, name string) error {
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

// read parses a test file or a file of a suite.
func (s *scan) read(module fs.FS, name string) error {
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

// isSuite reports whether the package in a directory is made for the tests of others: it imports testing
// but is not a test.
func (s *scan) isSuite(module fs.FS, dir string) bool {
	is, known := s.isOne[dir]
	if !known {
		names, _ := fs.Glob(module, path.Join(dir, "*.go"))
		is = slices.ContainsFunc(names, func(name string) bool {
			source, _ := fs.ReadFile(module, name)
			return !strings.HasSuffix(name, "_test.go") && bytes.Contains(source, []byte(`"testing"`))
		})
		s.isOne[dir] = is
	}
	return is
}

// modulePath returns the module's path from go.mod, or "" without a go.mod.
func modulePath(module fs.FS) string {
	text, _ := fs.ReadFile(module, "go.mod")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// tags adds the rules of the tags in a package's files. around returns the tests that a tag belongs to.
func (s *scan) tags(p []*ast.File, around func(*ast.File, *ast.Comment) []Test) []error {
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
