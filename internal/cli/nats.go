package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sigma-scheduler/sigma/internal/train"
	"github.com/sigma-scheduler/sigma/internal/train/remote"
)

// Secrets may also come from the environment, as from a Kubernetes Secret. On the
// command line, other users of the machine would see them.
const (
	tokenVariable    = "SIGMA_NATS_TOKEN"
	userVariable     = "SIGMA_NATS_USER"
	passwordVariable = "SIGMA_NATS_PASSWORD"
)

// natsFlags hold the address of a NATS server and the credentials for it.
type natsFlags struct {
	url                  string
	ca, cert, key, creds string
	fingerprint          string
	tokenFile            string
	user, passwordFile   string
	listen               string // train only
	anonymous, plaintext bool   // with listen
	keep                 string // with listen: folder for its own certificate
}

func (f *natsFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "nats", "", "address of a NATS server with JetStream, nats://HOST:4222 or tls://HOST:4222")
	flags.StringVar(&f.ca, "nats-ca", "", "PEM file of the authorities to trust")
	flags.StringVar(&f.fingerprint, "nats-fingerprint", "", "SHA-256 of the server's certificate, which is then trusted: sha256:… as \"sigma train --listen\" prints it")
	flags.StringVar(&f.cert, "nats-cert", "", "PEM file of this side's certificate")
	flags.StringVar(&f.key, "nats-key", "", "PEM file of its key")
	flags.StringVar(&f.creds, "nats-creds", "", "file of NATS credentials")
	flags.StringVar(&f.tokenFile, "nats-token-file", "", "file that holds a token (or set "+tokenVariable+")")
	flags.StringVar(&f.user, "nats-user", "", "name of the user (or set "+userVariable+")")
	flags.StringVar(&f.passwordFile, "nats-password-file", "", "file that holds the user's password (or set "+passwordVariable+")")
}

// addListen adds the flags of a command that runs a server.
func (f *natsFlags) addListen(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "listen", "", "run a NATS server for workers in this process, at HOST:PORT; port 0 takes a free one")
	flags.BoolVar(&f.plaintext, "allow-plaintext", false, "with --listen: serve other machines without encryption")
	flags.BoolVar(&f.anonymous, "allow-anonymous", false, "with --listen: accept every client that can reach the port")
}

// remote reports whether there is a server at all.
func (f *natsFlags) remote() bool { return f.url != "" || f.listen != "" }

// check refuses flags that exclude each other.
func (f *natsFlags) check() error {
	if !f.remote() {
		for _, given := range []struct{ name, value string }{
			{"nats-ca", f.ca},
			{"nats-fingerprint", f.fingerprint},
			{"nats-cert", f.cert},
			{"nats-key", f.key},
			{"nats-creds", f.creds},
			{"nats-token-file", f.tokenFile},
			{"nats-user", f.user},
			{"nats-password-file", f.passwordFile},
		} {
			if given.value != "" {
				return usagef("--%s needs --nats or --listen", given.name)
			}
		}
	}
	for address := range strings.SplitSeq(f.url, ",") {
		u, err := url.Parse(address)
		if strings.Contains(address, "@") || err == nil && u.User != nil {
			return usagef("--nats: give user, password or token in files or in the environment, not in the address, where others see them")
		}
		if scheme, _, ok := strings.Cut(address, "://"); ok && !slices.Contains([]string{"nats", "tls", "ws", "wss"}, scheme) {
			return usagef("--nats %s: want nats://HOST:PORT or tls://HOST:PORT", address)
		}
	}
	switch {
	case f.url != "" && f.listen != "":
		return usagef("--nats is for a server elsewhere, --listen for one in this process: give one of them")
	case f.anonymous && f.listen == "":
		return usagef("--allow-anonymous needs --listen")
	case f.plaintext && f.listen == "":
		return usagef("--allow-plaintext needs --listen")
	case f.plaintext && f.cert != "":
		return usagef("--allow-plaintext and --nats-cert: give one of them")
	case f.fingerprint != "" && f.listen != "":
		return usagef("--nats-fingerprint is for a server elsewhere; --listen prints its own")
	case f.fingerprint != "" && f.ca != "":
		return usagef("--nats-fingerprint and --nats-ca: give one of them")
	case (f.cert == "") != (f.key == ""):
		return usagef("--nats-cert and --nats-key go together")
	case f.listen != "" && f.creds != "":
		return usagef("--nats-creds is for a server elsewhere; --listen takes a token, or a user and a password")
	case f.listen != "" && f.ca != "" && f.cert == "":
		return usagef("--listen with --nats-ca asks clients for certificates: it needs its own, --nats-cert and --nats-key")
	}
	if f.fingerprint != "" {
		if err := remote.CheckFingerprint(f.fingerprint); err != nil {
			return usagef("--nats-fingerprint %w", err)
		}
	}
	return nil
}

// access reads the secrets, and checks the other files. A server in this process makes a token when its file does
// not exist. It accepts no client without a secret or a certificate, unless the flags
// allow it.
func (f *natsFlags) access() (remote.Access, error) {
	a := remote.Access{
		CA: f.ca, Cert: f.cert, Key: f.key, Creds: f.creds,
		Fingerprint: f.fingerprint, Keep: f.keep, Plaintext: f.plaintext,
	}
	for _, file := range []struct {
		name, path string
		check      func(path string) error
	}{{"nats-ca", f.ca, remote.CheckAuthorities}, {"nats-creds", f.creds, remote.CheckCredentials}} {
		if file.path == "" {
			continue
		}
		if err := file.check(file.path); err != nil {
			return a, fmt.Errorf("--%s: %w", file.name, err)
		}
	}
	a.Token = os.Getenv(tokenVariable)
	a.User, a.Password = cmp.Or(f.user, os.Getenv(userVariable)), os.Getenv(passwordVariable)
	var err error
	switch {
	case f.tokenFile != "" && f.listen != "":
		a.Token, err = remote.TokenFile(f.tokenFile)
	case f.tokenFile != "":
		a.Token, err = remote.ReadSecret(f.tokenFile)
	}
	if err != nil {
		return a, fmt.Errorf("--nats-token-file: %w", err)
	}
	if f.passwordFile != "" {
		if a.Password, err = remote.ReadSecret(f.passwordFile); err != nil {
			return a, fmt.Errorf("--nats-password-file: %w", err)
		}
	}
	switch {
	case a.Token != "" && a.User != "":
		return a, usagef("a token and a user: give one of them")
	case (a.User == "") != (a.Password == ""):
		return a, usagef("a user and a password go together: --nats-user or %s, --nats-password-file or %s", userVariable, passwordVariable)
	case f.listen == "":
	case f.anonymous && (a.Token != "" || a.User != ""):
		return a, usagef("--allow-anonymous, and a token or a user: give one of them")
	case !f.anonymous && a.Token == "" && a.User == "" && f.ca == "":
		return a, usagef("--listen needs --nats-token-file (made if it does not exist), a user and a password, or certificates of clients (--nats-ca); --allow-anonymous accepts every client")
	}
	return a, nil
}

// distribute leaves evaluations to workers elsewhere if the flags demand it. The
// caller calls disconnect after the training.
func (f *natsFlags) distribute(ctx context.Context, cfg *train.Config, say func(string)) (disconnect func(), err error) {
	if !f.remote() {
		return func() {}, nil
	}
	access, err := f.access()
	if err != nil {
		return nil, err
	}
	conn, disconnect, err := f.connect(ctx, access, say)
	if err != nil {
		return nil, err
	}
	options := remote.TrainerOptions{Threads: cfg.Workers}
	if cfg.Workers == 0 {
		say("leaving all evaluations to workers")
	}
	cfg.Distribute = func(ctx context.Context, job *train.Job) (train.Distributor, error) {
		return remote.NewTrainer(ctx, conn, job, options)
	}
	return disconnect, nil
}

func (f *natsFlags) connect(ctx context.Context, access remote.Access, say func(string)) (*remote.Conn, func(), error) {
	if f.url != "" {
		conn, err := remote.Connect(ctx, f.url, access, say)
		if err != nil {
			return nil, nil, err
		}
		return conn, conn.Close, nil
	}
	server, err := remote.StartServer(f.listen, access)
	if err != nil {
		return nil, nil, err
	}
	closeServer := func() {
		if err := server.Close(); err != nil {
			say("ending the server: " + err.Error())
		}
	}
	conn, err := server.Connect(ctx, say)
	if err != nil {
		closeServer()
		return nil, nil, err
	}
	say("workers may come: " + f.workerCommand(server))
	return conn, func() {
		conn.Close()
		closeServer()
	}, nil
}

// workerCommand is the command to type on another machine.
func (f *natsFlags) workerCommand(server *remote.Server) string {
	command := "sigma worker --nats " + server.URL()
	if server.Fingerprint() != "" {
		command += " --nats-fingerprint " + server.Fingerprint()
	}
	if f.ca != "" {
		command += " --nats-cert CERTIFICATE --nats-key KEY"
	}
	if f.tokenFile != "" {
		command += " --nats-token-file " + f.tokenFile
	}
	return command
}
