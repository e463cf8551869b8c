package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// rawCodec passes messages of gRPC as bytes.
type rawCodec struct{}

// Marshal implements [encoding.Codec].
func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

// Unmarshal implements [encoding.Codec].
func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = slices.Clone(data)
	return nil
}

// Name implements [encoding.Codec].
func (rawCodec) Name() string { return "raw" }

// callGRPC takes a stream's part: it sends messages, at its turn after each answer where turns
// are taken, and returns all that comes.
func callGRPC(ctx context.Context, conn *grpc.ClientConn, method string, messages [][]byte, turns bool) (answers [][]byte, headers, trailers metadata.MD, err error) {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		return nil, nil, nil, err
	}
	receive := func() error {
		var answer []byte
		err := stream.RecvMsg(&answer)
		if err == nil {
			answers = append(answers, answer)
		}
		return err
	}
	for _, message := range messages {
		if stream.SendMsg(&message) != nil {
			break // the end says why
		}
		if turns && receive() != nil {
			break
		}
	}
	_ = stream.CloseSend()
	for err == nil {
		err = receive()
	}
	headers, _ = stream.Header()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return answers, headers, stream.Trailer(), err
}

// TestTransparentGRPC: calls of all four forms, metadata, codes and messages of errors are the
// same with the gate and without.
func TestTransparentGRPC(t *testing.T) {
	serve := func() (string, chan metadata.MD) {
		seen := make(chan metadata.MD, 1)
		server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			given, _ := metadata.FromIncomingContext(stream.Context())
			seen <- given
			_ = stream.SendHeader(metadata.Pairs("x-head", "a", "x-head", "b", "x-bin", "\x00\xff"))
			stream.SetTrailer(metadata.Pairs("x-trailer", "c", "x-trailer", "d"))
			method, _ := grpc.Method(stream.Context())
			var all []byte
			for {
				var message []byte
				err := stream.RecvMsg(&message)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					return err
				}
				all = append(all, message...)
				if method == "/t.T/Both" {
					if err := stream.SendMsg(&message); err != nil {
						return err
					}
				}
			}
			switch method {
			case "/t.T/Many":
				for range 20 {
					if err := stream.SendMsg(&all); err != nil {
						return err
					}
				}
			case "/t.T/Fails":
				return status.Error(codes.Code(len(all)), "caf\xc3\xa9 100% \n")
			case "/t.T/One":
				return stream.SendMsg(&all)
			}
			return nil
		}))
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		return listener.Addr().String(), seen
	}
	dialled := func(address string) *grpc.ClientConn {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("t.example"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	address, seen := serve()
	behind, seenBehind := serve()
	gate := startGate(t, behind, "--limit", "10")
	direct, through := dialled(address), dialled(gate.listen)
	m := &maker{Rand: rand.New(rand.NewPCG(5, 0))}
	calls := max(*transparentFlag/20, 40)
	for n := range calls {
		method := "/t.T/" + oneOf(m, "One", "Many", "Both", "Fails")
		messages := make([][]byte, 1+m.IntN(4))
		for i := range messages {
			messages[i] = m.bytes(oneOf(m, 0, 4, 1000, 100_000))
			if method == "/t.T/Fails" {
				messages[i] = make([]byte, m.IntN(5))
			}
		}
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-many", "1", "x-many", "2", "x-bin", string(m.bytes(20)), "x-long", strings.Repeat("l", m.IntN(5000)))
		turns := method == "/t.T/Both" && m.chance(.5)
		wantAnswers, wantHead, wantTrailer, wantErr := callGRPC(ctx, direct, method, messages, turns)
		answers, head, trailer, err := callGRPC(ctx, through, method, messages, turns)
		require.Equal(t, status.Convert(wantErr).Proto(), status.Convert(err).Proto(), "%d %s", n, method)
		require.True(t, slices.EqualFunc(wantAnswers, answers, bytes.Equal), "%d %s: answers", n, method)
		require.Equal(t, []metadata.MD{wantHead, wantTrailer}, []metadata.MD{head, trailer}, "%d %s", n, method)
		want, got := <-seen, <-seenBehind
		require.Equal(t, []string{"127.0.0.1"}, got["x-forwarded-for"])
		delete(got, "x-forwarded-for")
		for _, given := range []metadata.MD{want, got} {
			delete(given, "grpc-timeout") // the time that is left
		}
		require.Equal(t, want, got, "%d %s", n, method)
	}
	t.Logf("| gRPC | calls of all four forms | %d |", calls)
}
