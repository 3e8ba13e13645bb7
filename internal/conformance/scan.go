package conformance

import (
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

// A Test is a function that go test runs, or a script that such a one plays.
type Test struct {
	File string // its path, from the module's root, with slashes
	Name string // of the function; empty for a script
}

// String is the test's name behind that of its package.
func (t Test) String() string {
	dir, script, ok := strings.Cut(t.File, "/testdata/")
	if ok {
		return path.Base(dir) + " " + path.Base(script)
	}
	return path.Base(path.Dir(t.File)) + "." + t.Name
}

// Scan returns the tests that the test files of a module show each rule with,
// by the rule's id, in order of file and name. Errors are those of all files,
// each with its place.
func Scan(module fs.FS, sections []Section) (map[string][]Test, error) {
	files := token.NewFileSet()
	packages := map[string][]*ast.File{} // by directory and name
	err := fs.WalkDir(module, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return enter(module, name)
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := fs.ReadFile(module, name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		key := path.Join(path.Dir(name), f.Name.Name)
		packages[key] = append(packages[key], f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	shown := map[string][]Test{}
	var errs []error
	for key, p := range packages {
		errs = append(errs, scanPackage(files, p, sections, shown)...)
		errs = append(errs, scanScripts(module, path.Dir(key), p, sections, shown))
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

// enter skips directories that go test ./... skips: hidden ones, test data and
// other modules.
func enter(module fs.FS, name string) error {
	if name == "." {
		return nil
	}
	base := path.Base(name)
	if base[0] == '.' || base[0] == '_' || base == "testdata" {
		return fs.SkipDir
	}
	if _, err := fs.Stat(module, path.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// scanPackage adds to shown what the tags in one package's files say.
func scanPackage(files *token.FileSet, p []*ast.File, sections []Section, shown map[string][]Test) []error {
	uses := usesOf(files, p)
	var errs []error
	for _, f := range p {
		for _, group := range f.Comments {
			for _, c := range group.List {
				for line := range strings.Lines(commentText(c)) {
					ids, err := tagged(sections, line)
					if err == nil && ids == nil {
						continue
					}
					tests := uses.testsAround(f, c)
					if err == nil && len(tests) == 0 {
						err = errors.New("no test has or uses what this tag stands in")
					}
					if err != nil {
						errs = append(errs, fmt.Errorf("%s: tag %q: %w", files.Position(c.Pos()), strings.TrimSpace(line), err))
						continue
					}
					for _, id := range ids {
						shown[id] = append(shown[id], tests...)
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
