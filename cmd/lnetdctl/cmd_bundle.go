package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/bundle"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/doctor"
)

// bundleSuffix is the suffix of the names of archives.
const bundleSuffix = ".tar.gz"

func (p *program) bundleCommand() *cobra.Command {
	var config string
	var force bool
	c := command(manual{
		use:   "bundle [--config FILE] [--force] [FILE]",
		short: "collect what a report about a problem needs into one archive",
		long: `Writes an archive that only the user can read: what lnetd says about itself, its
configuration, nets, up to 1000 peers, routes, counters and clients, what doctor finds,
the latest events, the log if it can be read, and facts about this host. It prints the
list of the files, and what is missing and why; the archive has this list too. It also
works if lnetd is not running.

Values that look like secrets are replaced. NIDs, addresses and the names of interfaces,
hosts and programs are not, because nothing can be diagnosed without them. Read the files
before you publish them. No payload of messages is included.

The default of FILE is lnetd-bundle-TIME.tar.gz in the current directory. A file that
exists is not replaced, unless --force is given. FILE may also be a FIFO or a character
device; "-" is standard output.`,
		example: `lnetdctl bundle
lnetdctl bundle --force report.tar.gz`,
		exits: `0    the archive was written, perhaps without some files
1    help was requested
234  an argument is invalid (-22)
255  FILE cannot be written (-1)`,
		helps: true,
	}, func(ctx context.Context, operands []string) error { return p.bundle(ctx, operands, config, force) })
	c.Flags().StringVar(&config, "config", "", "configuration `FILE` of lnetd (default "+doctor.DefaultConfig+")")
	c.Flags().BoolVar(&force, "force", false, "replace FILE")
	return c
}

func (p *program) bundle(ctx context.Context, operands []string, config string, force bool) error {
	if len(operands) > 1 {
		return errors.New("give one file at most")
	}
	if config != "" {
		if _, err := os.Stat(config); err != nil {
			return fmt.Errorf("option '--config': %w", err)
		}
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	now := time.Now()
	file := "lnetd-bundle-" + now.Format("20060102-150405.000") + bundleSuffix
	if len(operands) == 1 {
		file = operands[0]
	}
	client := p.client()
	defer client.Close()
	out, err := p.create(ctx, file, force)
	if err != nil {
		return p.noFile(err)
	}
	var list []bundledFile
	b := bundle.Bundle{
		Client: client, Config: config, Name: strings.TrimSuffix(filepath.Base(file), bundleSuffix), Version: api.BuildVersion(), Now: now,
		Report: func(f bundle.File) {
			list = append(list, newBundledFile(&f))
			if !p.json && file != "-" {
				fmt.Fprintln(p.stdout, f.String())
			}
		},
	}
	if err := b.Write(ctx, out); err != nil {
		out.drop()
		return p.noFile(err)
	}
	if err := out.keep(); err != nil {
		return p.noFile(err)
	}
	switch {
	case file == "-":
		return nil
	case p.json:
		return p.printJSON(bundled{file, list})
	}
	_, err = fmt.Fprintf(p.stdout, "\nwrote %s; read CONTENTS.txt in it before you publish it\n", file)
	return err
}

// bundled is what "bundle --json" prints.
type bundled struct {
	Archive string        `json:"archive"`
	Files   []bundledFile `json:"files"`
}

// bundledFile is a file in the archive. Missing is the reason why it is not there.
type bundledFile struct {
	Name    string `json:"name"`
	Size    int    `json:"size"`
	Cut     bool   `json:"cut,omitempty"`
	Missing string `json:"missing,omitempty"`
}

func newBundledFile(f *bundle.File) bundledFile {
	b := bundledFile{Name: f.Name, Size: f.Size, Cut: f.Cut}
	if f.Err != nil {
		b.Missing = f.Err.Error()
	}
	return b
}
