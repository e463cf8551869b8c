package trace

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A content is one file of the canonical rewrite.
type content struct {
	name string
	text []byte
}

// canonical is the trace as we write it: the same trace gives the same bytes.
// Files come by name. placed.csv is left out when nothing is placed; all
// others are always there.
func (t *Trace) canonical() ([]content, error) {
	m := manifest{
		name: t.Name, description: t.Description, fleet: t.Instance.Fleet,
		measureFrom: t.MeasureFrom, source: t.Source,
	}
	for _, dim := range t.Instance.Dimensions {
		m.dimensions = append(m.dimensions, dim.Name)
		if dim.Device {
			m.devices = append(m.devices, dim.Name)
		}
	}
	yaml, err := m.encode()
	if err != nil {
		return nil, err
	}
	contents := []content{
		{appsFile, t.encodeApps()},
		{eventsFile, t.encodeEvents()},
		{machinesFile, t.encodeMachines()},
	}
	if len(t.Placed) > 0 {
		contents = append(contents, content{placedFile, t.encodePlaced()})
	}
	contents = append(contents, content{rulesFile, t.encodeRules()}, content{manifestFile, yaml})
	return contents, nil
}

// readable is canonical for the writers: nothing is written that the reader refuses.
func (t *Trace) readable() ([]content, error) {
	contents, err := t.canonical()
	if err != nil {
		return nil, err
	}
	return contents, readBack(contents)
}

// readBack makes sure that what is written can be read. A trace made by hand
// or by a generator may hold what the format does not allow.
func readBack(contents []content) error {
	f := files{}
	for _, c := range contents {
		f[c.name] = inMemory(c.text)
	}
	if _, err := f.read(); err != nil {
		return fmt.Errorf("the trace cannot be read back: %w", err)
	}
	return nil
}

// A line builds rows of a CSV file.
type line struct {
	buf   []byte
	start bool // nothing of the row is written yet
}

func newLine(columns ...string) *line {
	l := &line{start: true}
	for _, c := range columns {
		l.text(c)
	}
	l.end()
	return l
}

// next starts a field.
func (l *line) next() {
	if !l.start {
		l.buf = append(l.buf, ',')
	}
	l.start = false
}

func (l *line) end() {
	l.buf = append(l.buf, '\n')
	l.start = true
}

// text writes a field, in quotes only where the format needs them.
func (l *line) text(s string) {
	l.next()
	if !strings.ContainsAny(s, ",\"\r\n") {
		l.buf = append(l.buf, s...)
		return
	}
	l.buf = append(l.buf, '"')
	l.buf = append(l.buf, strings.ReplaceAll(s, `"`, `""`)...)
	l.buf = append(l.buf, '"')
}

func (l *line) int(n int64) {
	l.next()
	l.buf = strconv.AppendInt(l.buf, n, 10)
}

// intUnless leaves the field empty where n has the meaning of empty.
func (l *line) intUnless(n, empty int64) {
	if n == empty {
		l.next()
		return
	}
	l.int(n)
}

func (l *line) float(v float64) {
	l.next()
	l.buf = appendFloat(l.buf, v)
}

// forecast leaves the field empty where there is none.
func (l *line) forecast(v float64) {
	if v < 0 {
		l.next()
		return
	}
	l.float(v)
}

func (l *line) quantities(values []int64, dims []binpack.Dimension) {
	for d, v := range values {
		l.next()
		l.buf = appendQuantity(l.buf, v, dims[d].One)
	}
}

// appendFloat writes the shortest decimal that reads as v again.
func appendFloat(buf []byte, v float64) []byte {
	return strconv.AppendFloat(buf, v, 'f', -1, 64)
}

func dimensionNames(in *binpack.Instance) []string {
	var names []string
	for _, dim := range in.Dimensions {
		names = append(names, dim.Name)
	}
	return names
}

func (t *Trace) encodeMachines() []byte {
	in := t.Instance
	l := newLine(append(machineColumns[:len(machineColumns):len(machineColumns)], dimensionNames(in)...)...)
	for _, m := range in.Machines {
		l.text(m.Name)
		l.text(in.Types[m.Type])
		l.intUnless(int64(m.Count), binpack.Unlimited)
		l.float(m.Cost)
		l.quantities(m.Capacity, in.Dimensions)
		l.end()
	}
	return l.buf
}

func (t *Trace) encodeApps() []byte {
	in := t.Instance
	columns := append([]string{}, appColumns[:appBeforeDimensions]...)
	columns = append(append(columns, dimensionNames(in)...), appColumns[appBeforeDimensions:]...)
	l := newLine(columns...)
	for _, app := range in.Apps {
		group := in.Groups[app.Group]
		l.text(app.Name)
		if group.Name == app.Name {
			l.text("")
		} else {
			l.text(group.Name)
		}
		var types []string
		for _, i := range app.Types {
			types = append(types, in.Types[i])
		}
		l.text(strings.Join(types, "|"))
		l.quantities(app.Demand, in.Dimensions)
		l.intUnless(int64(group.Limit), 0)
		l.intUnless(int64(group.SpreadMin), 0)
		l.forecast(app.Expected)
		l.forecast(app.Lifetime)
		l.end()
	}
	return l.buf
}

func (t *Trace) encodeRules() []byte {
	l := newLine(ruleColumns...)
	for _, r := range t.Instance.Rules {
		l.text(t.Instance.Groups[r.A].Name)
		l.text(t.Instance.Groups[r.B].Name)
		l.int(int64(r.Max))
		l.end()
	}
	return l.buf
}

func (t *Trace) encodePlaced() []byte {
	l := newLine(placedColumns...)
	for _, p := range t.Placed {
		request := t.Requests[p.Request]
		l.text(request.Name)
		l.text(t.Instance.Apps[request.App].Name)
		l.text(t.MachineName(p.Line, p.Index))
		l.int(int64(p.Count))
		l.text(FormatDevices(t.Instance, p.Devices))
		l.end()
	}
	return l.buf
}

// FormatDevices is the text of the devices column: the indices joined by |,
// each after its dimension when several dimensions are devices.
func FormatDevices(in *binpack.Instance, devices []Device) string {
	kinds := 0
	for _, dim := range in.Dimensions {
		if dim.Device {
			kinds++
		}
	}
	var buf []byte
	for i, device := range devices {
		if i > 0 {
			buf = append(buf, '|')
		}
		if kinds > 1 {
			buf = append(append(buf, in.Dimensions[device.Dimension].Name...), ':')
		}
		buf = strconv.AppendInt(buf, int64(device.Index), 10)
	}
	return string(buf)
}

// encodeEvents writes the app and the number of items of deletes too, so that
// a line can be understood alone.
func (t *Trace) encodeEvents() []byte {
	l := newLine(eventColumns...)
	for _, e := range t.Events {
		request := t.Requests[e.Request]
		l.float(e.Time)
		if e.Kind == Create {
			l.text(createText)
		} else {
			l.text(deleteText)
		}
		l.text(request.Name)
		l.text(t.Instance.Apps[request.App].Name)
		if e.Kind == Create {
			l.int(int64(request.Count))
		} else {
			l.int(int64(e.Count))
		}
		l.end()
	}
	return l.buf
}

// Digests returns digest.instance and digest.trace: "sha256:" and the
// hexadecimal SHA-256 of, for each file in the order of names,
//
//	name \0 length \0 content
//
// where length is the number of bytes of content in decimal digits. The
// content is our own canonical rewrite, what [Trace.Write] writes, whatever
// the trace was read from. digest.instance covers apps.csv, machines.csv and
// rules.csv (a header line when there are no rules), digest.trace apps.csv,
// events.csv, machines.csv, placed.csv (only when something is placed),
// rules.csv and trace.yaml.
func (t *Trace) Digests() (instance, trace string, err error) {
	contents, err := t.canonical()
	if err != nil {
		return "", "", fmt.Errorf("digest of trace %s: %w", t.Name, err)
	}
	ofInstance, ofTrace := sha256.New(), sha256.New()
	for _, c := range contents {
		head := fmt.Sprintf("%s\x00%d\x00", c.name, len(c.text))
		hashes := []io.Writer{ofTrace}
		if c.name == appsFile || c.name == machinesFile || c.name == rulesFile {
			hashes = append(hashes, ofInstance)
		}
		for _, h := range hashes {
			io.WriteString(h, head) // a hash never fails
			h.Write(c.text)
		}
	}
	return "sha256:" + hex.EncodeToString(ofInstance.Sum(nil)), "sha256:" + hex.EncodeToString(ofTrace.Sum(nil)), nil
}

// Write writes the trace as the folder dir. It writes aside and renames, so
// that dir is never half written. A trace in dir is replaced, though README*,
// LICENSE* and hidden files stay; any other folder that is not empty is refused.
func (t *Trace) Write(dir string) error {
	if err := t.write(dir); err != nil {
		return fmt.Errorf("writing trace %s: %w", dir, err)
	}
	return nil
}

func (t *Trace) write(dir string) error {
	contents, err := t.readable()
	if err != nil {
		return err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		dir = target
	}
	if err := replaceable(dir); err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	aside, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(aside) // renamed by then, unless something failed
	if err := os.Chmod(aside, 0o755); err != nil {
		return err
	}
	for _, c := range contents {
		if err := writeSynced(filepath.Join(aside, c.name), c.text); err != nil {
			return err
		}
	}
	if err := syncFolder(aside); err != nil {
		return err
	}
	if err := exchange(aside, dir); err != nil {
		return err
	}
	return syncFolder(parent)
}

// replaceable says why a folder may not be overwritten.
func replaceable(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if !info.IsDir() {
		return errors.New("exists and is not a folder")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return err
	}
	f, err := folderFiles(dir)
	if err == nil {
		err = f.complete()
	}
	if err != nil {
		return fmt.Errorf("the folder is not empty and not a trace: %w", err)
	}
	return nil
}

// exchange puts the folder aside in the place of dir. No portable call swaps
// two folders: for a moment none is called dir, and whoever stops then finds
// the old one beside it.
func exchange(aside, dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return os.Rename(aside, dir)
	}
	old := strings.Replace(aside, ".new-", ".old-", 1)
	if err := os.Rename(dir, old); err != nil {
		return err
	}
	if err := os.Rename(aside, dir); err != nil {
		return errors.Join(err, os.Rename(old, dir))
	}
	entries, err := os.ReadDir(old)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if beside(e.Name()) {
			if err := os.Rename(filepath.Join(old, e.Name()), filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(old)
}

func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncFolder makes the names in a folder last.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// WriteTarGz writes the trace as one file, aside and renamed like [Trace.Write].
// The bytes depend on the trace and on the compressor alone.
func (t *Trace) WriteTarGz(path string) error {
	contents, err := t.readable()
	if err == nil {
		err = writeAside(path, func(w io.Writer) error { return pack(w, contents) })
	}
	if err != nil {
		return fmt.Errorf("writing trace %s: %w", path, err)
	}
	return nil
}

func pack(w io.Writer, contents []content) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	for _, c := range contents {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: c.name, Size: int64(len(c.text)), Mode: 0o644, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(head); err != nil {
			return err
		}
		if _, err := archive.Write(c.text); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}

// writeAside writes a file beside path and renames it when all is written.
func writeAside(path string, write func(io.Writer) error) error {
	f, err := createAside(path)
	if err != nil {
		return err
	}
	defer f.discard()
	if err := write(f.file); err != nil {
		return err
	}
	return f.commit()
}

// An asideFile becomes path when it is committed.
type asideFile struct {
	path string
	file *os.File
	done bool
}

func createAside(path string) (*asideFile, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("exists and is not a regular file")
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-")
	if err != nil {
		return nil, err
	}
	return &asideFile{path: path, file: f}, nil
}

func (f *asideFile) commit() error {
	err := errors.Join(f.file.Chmod(0o644), f.file.Sync(), f.file.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(f.file.Name(), f.path); err != nil {
		return err
	}
	f.done = true
	return syncFolder(filepath.Dir(f.path))
}

// discard removes what was not committed.
func (f *asideFile) discard() {
	if !f.done {
		f.file.Close()
		os.Remove(f.file.Name())
	}
}
