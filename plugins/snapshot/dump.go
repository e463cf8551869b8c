package snapshot

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// DumpCommand writes the objects that [ReadDumps] reads. A cluster without metrics-server has no
// pods.metrics.k8s.io: kubectl then refuses the command until they are left out.
const DumpCommand = "kubectl get nodes,pods,deployments,statefulsets,replicasets,jobs,cronjobs,hpa,pdb,pvc,pv,csinodes,pods.metrics.k8s.io -A -o json"

// Bounds of dumps: etcd holds no object of more than 1.5 MiB, and a YAML document is read as a whole.
const (
	mostObject   = 16 << 20
	mostYAML     = 256 << 20
	mostUnpacked = 8 << 30
)

// ReadDumps reads a cluster from files that kubectl wrote with -o json or -o yaml, see [DumpCommand]: lists or single
// objects, any number of them in a file, of all namespaces, packed by gzip or not; "-" is the standard input. Kinds that
// placement does not depend on are ignored, and a note counts them. Of an object that is there more than once
// the last counts. An error names the file, the object and the field. A dump without nodes is an error.
func ReadDumps(paths []string) (*Picture, error) {
	d := newDump()
	for _, path := range paths {
		if err := d.readFile(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if len(d.nodes) == 0 {
		return nil, fmt.Errorf("%s: there are no nodes: want what this writes: %s", strings.Join(paths, ", "), DumpCommand)
	}
	return d.picture(), nil
}

// readFile reads one file.
func (d *dump) readFile(path string) error {
	var in io.Reader = os.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return withoutPath(err)
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	return d.read(in)
}

// withoutPath returns the cause of an error of a file, whose path the caller adds.
func withoutPath(err error) error {
	if at, ok := errors.AsType[*os.PathError](err); ok {
		return at.Err
	}
	return err
}

// read reads a file of any format. A shell of Windows redirects into UTF-16.
func (d *dump) read(in io.Reader) error {
	from := bufio.NewReader(in)
	if head, _ := from.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(from)
		if err != nil {
			return err
		}
		from = bufio.NewReader(unpacked)
	}
	limit := &limited{from: from, left: mostUnpacked, object: mostObject}
	text := bufio.NewReader(transform.NewReader(limit, unicode.BOMOverride(transform.Nop)))
	first, err := firstSign(text)
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("the file is empty")
	case err != nil:
		return withoutPath(err)
	case first == '{':
		return d.readJSON(text, limit)
	}
	limit.left, limit.object = mostYAML, mostYAML
	return d.readYAML(text)
}

// firstSign skips white space and returns the next byte without reading it.
func firstSign(r *bufio.Reader) (byte, error) {
	for {
		next, err := r.Peek(1)
		if err != nil {
			return 0, err
		}
		if !strings.ContainsRune(" \t\r\n", rune(next[0])) {
			return next[0], nil
		}
		if _, err := r.Discard(1); err != nil {
			return 0, err
		}
	}
}

// readYAML reads documents, of which each is a list or an object.
func (d *dump) readYAML(in *bufio.Reader) error {
	documents := yamlutil.NewYAMLReader(in)
	for n := 1; ; n++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			text, err = yaml.YAMLToJSON(text)
		}
		if err == nil && !bytes.Equal(text, []byte("null")) {
			err = d.readJSON(bytes.NewReader(text), &limited{})
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
	}
}

// readJSON reads objects one after another. limit bounds the size of each.
func (d *dump) readJSON(in io.Reader, limit *limited) error {
	decoder := json.NewDecoder(in)
	for {
		limit.object = mostObject
		begin, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && begin != json.Delim('{') {
			err = fmt.Errorf("want an object, as kubectl writes with -o json, not %v", begin)
		}
		if err == nil {
			err = d.readObject(decoder, limit)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			err = errors.New("the file ends within an object")
		}
		if err != nil {
			if _, ok := errors.AsType[*objectError](err); ok {
				return err
			}
			return fmt.Errorf("at byte %d: %w", decoder.InputOffset(), err)
		}
	}
}

// readObject reads the rest of an object: a list, whose items it takes one by one, or one object.
func (d *dump) readObject(decoder *json.Decoder, limit *limited) error {
	fields, isList := map[string]json.RawMessage{}, false
	for decoder.More() {
		limit.object = mostObject
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		if key == "items" {
			var of string
			_ = json.Unmarshal(fields["kind"], &of) // of a list of one kind, whose items may lack theirs
			d.podList = d.podList || of == "PodList"
			if err := d.readItems(decoder, limit, strings.TrimSuffix(of, "List")); err != nil {
				return err
			}
			isList = true
			continue
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		if name, ok := key.(string); ok {
			fields[name] = value
		}
	}
	if _, err := decoder.Token(); err != nil || isList {
		return err
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return d.add(raw, "")
}

// readItems reads the items of a list of a kind; "" = of any.
func (d *dump) readItems(decoder *json.Decoder, limit *limited, kind string) error {
	begin, err := decoder.Token()
	if err != nil || begin == nil {
		return err
	}
	if begin != json.Delim('[') {
		return fmt.Errorf("items: want a list, not %v", begin)
	}
	var raw json.RawMessage
	for decoder.More() {
		limit.object = mostObject
		if err := decoder.Decode(&raw); err != nil {
			return err
		}
		if err := d.add(raw, kind); err != nil {
			return err
		}
	}
	_, err = decoder.Token()
	return err
}

// A limited reader ends with an error where a file, or an object of it, is larger than any of a cluster.
type limited struct {
	from         io.Reader
	left, object int64
}

func (l *limited) Read(p []byte) (int, error) {
	switch {
	case l.left <= 0:
		return 0, errors.New("the file is too large")
	case l.object < 0:
		return 0, fmt.Errorf("an object is larger than %d MiB", mostObject>>20)
	}
	n, err := l.from.Read(p)
	l.left, l.object = l.left-int64(n), l.object-int64(n)
	return n, err
}

// byCount lists kinds with the numbers of their objects.
func byCount(of map[string]int) string {
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(of)) {
		list = append(list, fmt.Sprintf("%s %d", kind, of[kind]))
	}
	return strings.Join(list, ", ")
}
