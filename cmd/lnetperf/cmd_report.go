package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/load/perf/picture"
)

func (p *program) reportCommand() *cobra.Command {
	dir, table := ".", false
	c := &cobra.Command{
		Use: "report [OPTIONS] FILE...", DisableFlagsInUseLine: true,
		Short: "draw the results of compare",
		Long: `Draws the results in each FILE, which is the output of compare --json or compare --hosted
--json, as SVG pictures. From NAME.json it makes two pictures: NAME.svg has all figures as
bars, with the goal of each case, and NAME-latency.svg has percentiles of the times of
single exchanges. Prints the names of the pictures. Existing files are overwritten.

The pictures need no other files, can be read on light and dark displays, and contain the
figures as text. The same results always make the same pictures.

With --markdown it draws nothing and prints the figures of each FILE as a table in
Markdown, in which those that miss a goal are bold.`,
		Example: `lnetperf report compare.json
lnetperf report --output pictures compare.json hosted.json
lnetperf report --markdown compare.json`,
		RunE: func(c *cobra.Command, files []string) error {
			if len(files) == 0 {
				return usage("report: no file")
			}
			if table && (p.json || c.Flags().Changed("output")) {
				return usage("report: --markdown prints tables and draws nothing, so it excludes --output and --json")
			}
			if table {
				return p.reportTables(files)
			}
			return p.report(dir, files)
		},
	}
	c.Flags().BoolVar(&table, "markdown", false, "print tables instead of drawing pictures")
	c.Flags().StringVarP(&dir, "output", "o", dir, "write the pictures to `DIRECTORY`, which must exist")
	return c
}

// reportTables prints a table of the results in each file.
func (p *program) reportTables(files []string) error {
	for k, file := range files {
		r, err := readResults(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if k > 0 {
			fmt.Fprintln(p.stdout)
		}
		if err := r.WriteTable(p.stdout); err != nil {
			return err
		}
	}
	return nil
}

// report draws the results in files, and writes the pictures to dir.
func (p *program) report(dir string, files []string) error {
	var written []string
	for _, file := range files {
		r, err := readResults(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		name := filepath.Join(dir, strings.TrimSuffix(filepath.Base(file), ".json"))
		if err := writeFile(name+".svg", r.WriteFigures); err != nil {
			return err
		}
		written = append(written, name+".svg")
		if !r.HasLatencies() {
			continue
		}
		if err := writeFile(name+"-latency.svg", r.WriteLatencies); err != nil {
			return err
		}
		written = append(written, name+"-latency.svg")
	}
	if p.json {
		return p.printJSON(map[string]any{"pictures": written})
	}
	for _, name := range written {
		fmt.Fprintln(p.stdout, name)
	}
	return nil
}

// readResults reads a file with the output of compare --json.
func readResults(path string) (*picture.Results, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return picture.Read(f)
}

// writeFile creates a file and calls write with it. It returns the first error, also of closing the file.
func writeFile(path string, write func(w io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
