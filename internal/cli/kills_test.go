package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// natsServer is a server elsewhere: nats-server PORT STORE TOKEN.
func natsServer() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: os.Args[2], Authorization: os.Args[3], NoSigs: true, NoLog: true,
	})
	if err != nil {
		panic(err)
	}
	s.Start()
	s.WaitForShutdown()
}

// freePort is a port that was free a moment ago.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, errors.Join(err, listener.Close())
}

// A process is one that is killed and started again.
type process struct {
	name string
	args []string
	cmd  *exec.Cmd
	out  bytes.Buffer // of all its lives
	dead chan error

	stderr io.Writer // nil = out
}

func (p *process) start(t *testing.T) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	p.cmd = &exec.Cmd{Path: exe, Args: p.args, Stdout: &p.out, Stderr: &p.out, Env: os.Environ()}
	if p.stderr != nil {
		p.cmd.Stderr = p.stderr
	}
	require.NoError(t, p.cmd.Start())
	p.dead = make(chan error, 1)
	go func(cmd *exec.Cmd, dead chan error) { dead <- cmd.Wait() }(p.cmd, p.dead)
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Kill())
	require.Error(t, <-p.dead)
}

// Workers, the server and the trainer are killed at random moments, with no
// warning, and started again; the trainer ends with the bytes of a training on
// one machine. SIGMA_KILLS says how often, in turn.
func TestKills(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes")
	}
	kills := 3
	if text := os.Getenv("SIGMA_KILLS"); text != "" {
		var err error
		kills, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"calm", "killed"} {
		require.NoError(t, os.Mkdir(file(name), 0o755))
	}
	train := func(folder string, args ...string) []string {
		return append([]string{
			"sigma", "train", "--trace", file("traces"), "--orders", "6", "--evaluations", strconv.Itoa(150 + 150*kills),
			"--quiet", "--out", file(folder + "/policy.yaml"),
		}, args...)
	}
	var out bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"generate", "small", "--count", "3", "--out", file("traces")}, &out, &out), out.String())
	require.Equal(t, exitOK, run(t.Context(), train("calm")[1:], &out, &out), out.String())
	port, err := freePort()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file("token"), []byte("secret\n"), 0o600))
	at := []string{"--nats", "nats://127.0.0.1:" + port, "--nats-token-file", file("token")}

	nats := &process{name: "server", args: []string{"nats-server", port, file("nats"), "secret"}}
	worker := append([]string{"sigma", "worker", "--workers", "1"}, at...)
	one, other := &process{name: "worker", args: worker}, &process{name: "other worker", args: worker}
	trainer := &process{name: "trainer", args: train("killed", append(at, "--workers", "0", "--checkpoint", file("checkpoint"))...)}
	all := []*process{nats, one, other, trainer}
	defer func() {
		for _, p := range all {
			_ = p.cmd.Process.Kill()
			if err := <-p.dead; t.Failed() {
				t.Logf("%s: %v\n%s", p.name, err, p.out.String())
			}
		}
	}()
	for _, p := range all {
		p.start(t)
	}
	recorded := func() int {
		text, _ := os.ReadFile(file("checkpoint/train.checkpoint"))
		return bytes.Count(text, []byte("\n"))
	}
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	victims := []*process{one, nats, trainer}
	rng.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
	var report string
	for i := range kills {
		for before := recorded(); recorded() < before+10; { // it is under way again
			select {
			case err := <-trainer.dead:
				trainer.dead <- err
				require.Fail(t, "the trainer ended before the last kill", "%v, after %d kills", err, i)
			case <-time.After(5 * time.Millisecond):
			}
		}
		time.Sleep(time.Duration(rng.Int64N(int64(300 * time.Millisecond))))
		victim := victims[i%len(victims)]
		report += fmt.Sprintf(" %s at %d,", victim.name, recorded()-1)
		victim.kill(t)
		time.Sleep(time.Duration(rng.Int64N(int64(200 * time.Millisecond))))
		victim.start(t)
	}
	select {
	case err := <-trainer.dead:
		trainer.dead <- err
		require.NoError(t, err)
	case <-time.After(2 * time.Minute):
		require.Fail(t, "the trainer does not end")
	}
	t.Logf("killed:%s of %d evaluations", report, 150+150*kills)
	require.Equal(t, readText(t, file("calm/policy.yaml")), readText(t, file("killed/policy.yaml")))
}
