// Discovery in Go over HTTP: read, read again only after a change, watch.
//
// It needs nothing but net/http and generated messages. With connect-go the calls become methods of
// a generated client; the bytes are the same.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"

	"google.golang.org/protobuf/proto"

	servicev1 "example.com/discovery/gen/apidiscovery/service/v1"
)

const (
	service = "/apidiscovery.service.v1.DiscoveryService/"
	// Flag of the last message of a stream, which has the status as JSON.
	endOfStream = 0x02
)

// read gets a message by GET. It returns the ETag; the message is unchanged if etag is current.
func read(server, method, etag string, in, out proto.Message) (string, error) {
	message, err := proto.Marshal(in)
	if err != nil {
		return "", err
	}
	query := url.Values{
		"connect":  {"v1"},
		"encoding": {"proto"},
		"base64":   {"1"},
		"message":  {base64.RawURLEncoding.EncodeToString(message)},
	}
	request, err := http.NewRequest(http.MethodGet, server+service+method+"?"+query.Encode(), nil)
	if err != nil {
		return "", err
	}
	if etag != "" {
		request.Header.Set("If-None-Match", etag)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", err
	}
	switch answer.StatusCode {
	case http.StatusNotModified:
		return etag, nil
	case http.StatusOK:
		return answer.Header.Get("ETag"), proto.Unmarshal(body, out)
	}
	return "", fmt.Errorf("%s: %s: %s", method, answer.Status, body)
}

// watch calls each for every message until it returns false, or the stream ends.
func watch(server string, in *servicev1.WatchDiscoveryRequest, each func(*servicev1.WatchDiscoveryResponse) bool) error {
	message, err := proto.Marshal(in)
	if err != nil {
		return err
	}
	// An envelope: one byte of flags, the size in four bytes, the message.
	body := append([]byte{0, 0, 0, 0, 0}, message...)
	binary.BigEndian.PutUint32(body[1:5], uint32(len(message)))
	answer, err := http.Post(server+service+"WatchDiscovery", "application/connect+proto", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("WatchDiscovery: %s", answer.Status)
	}
	for {
		var prefix [5]byte
		if _, err := io.ReadFull(answer.Body, prefix[:]); err != nil {
			return err
		}
		message := make([]byte, binary.BigEndian.Uint32(prefix[1:]))
		if _, err := io.ReadFull(answer.Body, message); err != nil {
			return err
		}
		if prefix[0]&endOfStream != 0 {
			var end struct {
				Error *struct{ Code, Message string }
			}
			if err := json.Unmarshal(message, &end); err != nil || end.Error == nil {
				return err
			}
			return fmt.Errorf("%s: %s", end.Error.Code, end.Error.Message)
		}
		response := &servicev1.WatchDiscoveryResponse{}
		if err := proto.Unmarshal(message, response); err != nil {
			return err
		}
		if !each(response) {
			return nil
		}
	}
}

func run(server string) error {
	request := &servicev1.GetDiscoveryRequest{}
	document := &servicev1.GetDiscoveryResponse{}
	etag, err := read(server, "GetDiscovery", "", request, document)
	if err != nil {
		return err
	}
	fmt.Println(len(document.GroupHashes), "groups,", document.Etag[:12])

	again := &servicev1.GetDiscoveryResponse{}
	if _, err := read(server, "GetDiscovery", etag, request, again); err != nil {
		return err
	}
	fmt.Println("changed since:", again.Etag != "")

	return watch(server, &servicev1.WatchDiscoveryRequest{}, func(message *servicev1.WatchDiscoveryResponse) bool {
		changes := message.GetChanges()
		if changes == nil { // a heartbeat
			return true
		}
		fmt.Println("watching from", changes.Etag[:12], "with", len(changes.Delta.Changed), "groups")
		return false // a real client goes on
	})
}

func main() {
	server := "http://127.0.0.1:8080"
	if len(os.Args) > 1 {
		server = os.Args[1]
	}
	if err := run(server); err != nil {
		log.Fatal(err)
	}
}
