package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH"), os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

// run writes the image that the arguments describe. epoch is the time of the image and of all files in
// it, in seconds since 1970.
func run(args []string, epoch string, stderr io.Writer) error {
	f := flag.NewFlagSet("image", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprintln(stderr, "usage: image -o DIR -version V [-revision R] STAGE ARCH...\nSTAGE/ARCH/root is the root directory of the package for ARCH.")
		f.PrintDefaults()
	}
	var r release
	out := f.String("o", "", "`DIR` to write the image layout to; it must not exist")
	f.StringVar(&r.version, "version", "", "`VERSION` of lnetd, such as v1.2.3")
	f.StringVar(&r.revision, "revision", "", "`COMMIT` that it was built from")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() < 2 || *out == "" || r.version == "" {
		f.Usage()
		return errors.New("-o, -version, STAGE and ARCH are needed")
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r.created = time.Unix(seconds, 0).UTC()
	index, err := r.index(f.Arg(0), f.Args()[1:])
	if err != nil {
		return err
	}
	return r.write(*out, index)
}
