// Command sbom removes from a CycloneDX document in JSON what differs between two builds of the
// same program: it sets the time to SOURCE_DATE_EPOCH, and removes the hashes of the tool that
// wrote the document. It reads standard input and writes standard output.
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := normalize(os.Stdin, os.Stdout, os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		fmt.Fprintf(os.Stderr, "sbom: %v\n", err)
		os.Exit(1)
	}
}

// normalize copies a document from in to out. It sets the time to epoch, in seconds since 1970, and
// removes the hashes of the tools.
func normalize(in io.Reader, out io.Writer, epoch string) error {
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(in, cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		return err
	}
	if bom.Metadata == nil {
		return fmt.Errorf("the %s document has no metadata", bom.BOMFormat)
	}
	bom.Metadata.Timestamp = time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	if tools := bom.Metadata.Tools; tools != nil && tools.Tools != nil {
		for k := range *tools.Tools {
			(*tools.Tools)[k].Hashes = nil
		}
	}
	return cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(&bom, bom.SpecVersion)
}
