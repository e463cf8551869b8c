package trace

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/dustin/go-humanize"
)

// DefaultUnpacked is the most bytes in an archive, or in the packed files of a data set,
// if the caller gives no limit.
const DefaultUnpacked = 1 << 30

// An UnpackedError is returned when more bytes are packed than Limit allows.
type UnpackedError struct{ Limit int64 }

func (e *UnpackedError) Error() string {
	return "more than " + humanize.IBytes(uint64(e.Limit)) + " when unpacked"
}

// Unpack reads the content of a gzip stream. After limit bytes reading fails with an [*UnpackedError].
func Unpack(r io.Reader, limit int64) (io.Reader, error) {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	return &bounded{unzipped, limit, &UnpackedError{limit}}, nil
}

// bounded fails behind left bytes.
type bounded struct {
	r    io.Reader
	left int64
	err  error // the error past the limit
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, b.err
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one more shows that there is more
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, b.err
	}
	return n, err
}

// An archive is a trace as .tar.gz. It is unpacked once to count and check it, and once
// more for each file that is read, since its order of files is not ours. So no file is ever in memory.
type archive struct {
	packed io.ReaderAt
	limit  int64 // bytes, unpacked
}

// unpack begins at the first file.
func (a *archive) unpack() (*tar.Reader, io.Reader, error) {
	const end = 1<<63 - 1
	unzipped, err := Unpack(io.NewSectionReader(a.packed, 0, end), a.limit)
	if err != nil {
		return nil, nil, fmt.Errorf("unpacking: %w", err)
	}
	return tar.NewReader(unzipped), unzipped, nil
}

// files lists the files, which lie at the top or in one folder.
func (a *archive) files() (files, error) {
	members, unzipped, err := a.unpack()
	if err != nil {
		return nil, err
	}
	f, folders := files{}, map[string]bool{}
	left := a.limit
	for i := 0; ; i++ {
		head, err := members.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("unpacking: %w", err)
		}
		// The head may announce more than follows: the holes of a sparse file.
		if left -= head.Size; left < 0 {
			return nil, fmt.Errorf("unpacking %s: %w", head.Name, &UnpackedError{a.limit})
		}
		folder, name := path.Split(strings.TrimPrefix(path.Clean("/"+head.Name), "/"))
		if head.Typeflag == tar.TypeDir || head.Typeflag == tar.TypeXGlobalHeader || beside(name) {
			continue
		}
		if head.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("%s: not a regular file", head.Name)
		}
		folders[folder] = true
		if len(folders) > 1 || strings.Count(folder, "/") > 1 {
			return nil, fmt.Errorf("%s: want all files of a trace in one folder", head.Name)
		}
		if err := f.add(name, func() (io.ReadCloser, error) { return a.open(i) }); err != nil {
			return nil, err
		}
	}
	// The bytes after the last file may still hold a broken checksum.
	if _, err := io.Copy(io.Discard, unzipped); err != nil {
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	return f, nil
}

// open unpacks up to a file.
func (a *archive) open(index int) (io.ReadCloser, error) {
	members, _, err := a.unpack()
	for i := 0; i <= index && err == nil; i++ {
		_, err = members.Next()
	}
	if err != nil {
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	return io.NopCloser(members), nil
}
