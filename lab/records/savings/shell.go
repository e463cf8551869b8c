package savings

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// A shell runs commands in the folder of a dump.
type shell struct {
	dir, sigma string
	log        io.Writer
	seconds    float64
	peakKiB    int64
	total      float64
}

// run runs a command that begins with sigma, and returns its standard output.
func (s *shell) run(ctx context.Context, command string) ([]byte, error) {
	fmt.Fprintln(s.log, "  ", command)
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(s.sigma)+string(os.PathListSeparator)+os.Getenv("PATH"), "NO_COLOR=1")
	var out, wrong bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &wrong
	err := cmd.Run()
	s.seconds, s.peakKiB = 0, 0
	if state := cmd.ProcessState; state != nil {
		s.seconds = cputime.Ended(state)
		s.total += s.seconds
		if use, ok := state.SysUsage().(*syscall.Rusage); ok {
			s.peakKiB = int64(use.Maxrss) //nolint:unconvert // int32 on some systems
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", command, err, strings.TrimSpace(wrong.String()))
	}
	return out.Bytes(), nil
}

// parsed runs a command and reads its JSON.
func parsed[T any](ctx context.Context, s *shell, command string) (v T, err error) {
	out, err := s.run(ctx, command)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(out, &v); err != nil {
		return v, fmt.Errorf("%s: %w", command, err)
	}
	return v, nil
}
