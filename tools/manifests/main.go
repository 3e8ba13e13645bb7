package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: manifests FILE...")
		os.Exit(2)
	}
	status := 0
	for _, name := range os.Args[1:] {
		text, err := os.ReadFile(name)
		if err == nil {
			err = check(text)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s:\n%v\n", name, err)
			status = 1
		}
	}
	os.Exit(status)
}

// check returns all errors in the documents of a file, or nil.
func check(text []byte) error {
	objects, err := decode(text)
	return errors.Join(err, checkObjects(objects))
}

// decode decodes the documents of a file strictly: it returns an error for each unknown or duplicate
// field and each value of the wrong type.
func decode(text []byte) (objects []runtime.Object, err error) {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	r := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for k := 1; ; k++ {
		document, readErr := r.Read()
		if errors.Is(readErr, io.EOF) {
			break
		}
		if readErr != nil {
			return objects, errors.Join(err, readErr)
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		var o runtime.Object
		monitor, decodeErr := decodePodMonitor(document)
		if o = monitor; monitor == nil {
			o, _, decodeErr = decoder.Decode(document, nil, nil)
		}
		if decodeErr != nil {
			err = errors.Join(err, fmt.Errorf("document %d: %w", k, decodeErr))
			continue
		}
		objects = append(objects, o)
	}
	if err == nil && len(objects) == 0 {
		err = errors.New("the file contains no document")
	}
	return objects, err
}
