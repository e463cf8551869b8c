// Package vuln looks for known vulnerabilities: run.sh.
package vuln

import (
	"archive/zip"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A database of one vulnerability, made up, in a function that this test calls.
var database = map[string]string{
	"index/db.json":      `{"modified":"2026-01-01T00:00:00Z"}`,
	"index/modules.json": `[{"path":"stdlib","vulns":[{"id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z"}]}]`,
	"index/vulns.json":   `[{"id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z"}]`,
	"ID/GO-2026-0001.json": `{"schema_version":"1.3.1","id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z","published":"2026-01-01T00:00:00Z",
		"affected":[{"package":{"name":"stdlib","ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
		"ecosystem_specific":{"imports":[{"path":"os/exec","symbols":["Command"]}]}}],"database_specific":{"url":"https://pkg.go.dev/vuln/GO-2026-0001"}}`,
}

// The database may be a folder or the zip file that vuln.go.dev serves, by URL or by path.
func TestDatabaseOfFiles(t *testing.T) {
	folder, file := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "vulndb.zip")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := zip.NewWriter(out)
	for name, text := range database {
		path := filepath.Join(folder, name)
		entry, err := archive.Create(name)
		if err == nil {
			_, err = entry.Write([]byte(text))
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o750)
		}
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, file)
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]struct {
		database string
		status   int
	}{
		"URL of a folder":   {"file://" + folder, 3},
		"folder":            {folder, 3},
		"URL of a zip file": {"file://" + file, 3},
		"zip file":          {file, 3},
		"relative path":     {relative, 3},
		"nothing there":     {"file:///nowhere/vulndb.zip", 1},
		"no database":       {"run.sh", 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := exec.Command("./run.sh", "hack/vuln")
			c.Env = append(os.Environ(), "VULNDB="+of.database)
			text, err := c.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != of.status {
				t.Errorf("%v instead of status %d:\n%s", err, of.status, text)
			}
		})
	}
}
