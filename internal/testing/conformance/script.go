package conformance

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// scripts is the directory, relative to a package, of the scripts that its tests run.
const scripts = "testdata/script"

// scanScripts reads the tags in the scripts of the package in dir, and adds each script to the rules in
// shown that it names. It reads the script directories that the package's test files p mention.
func scanScripts(module fs.FS, dir string, p []*ast.File, sections []Section, shown map[string][]Test) error {
	var errs []error
	for _, d := range scriptDirs(p) {
		err := fs.WalkDir(module, path.Join(dir, d), func(name string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && e.IsDir() {
				return nil
			}
			if err != nil {
				return err
			}
			text, err := fs.ReadFile(module, name)
			if err != nil {
				return err
			}
			errs = append(errs, scanScript(name, string(text), sections, shown)...)
			return nil
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// scriptDirs returns the script directories that string literals in test files name. A test passes such
// a string to the function that runs the scripts.
func scriptDirs(p []*ast.File) []string {
	var dirs []string
	for _, f := range p {
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil && strings.HasPrefix(s, scripts) {
					dirs = append(dirs, path.Clean(s))
				}
			}
			return true
		})
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// scanScript reads the tags in the comments of a script, and adds the script to the rules in shown that
// they name.
func scanScript(name, text string, sections []Section, shown map[string][]Test) []error {
	var errs []error
	n := 0
	for line := range strings.Lines(text) {
		n++
		comment, ok := strings.CutPrefix(line, "#")
		if !ok {
			continue
		}
		ids, err := tagged(sections, comment)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: tag %q: %w", name, n, strings.TrimSpace(comment), err))
		}
		for _, id := range ids {
			shown[id] = append(shown[id], Test{File: name})
		}
	}
	return errs
}
