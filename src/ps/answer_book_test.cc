#include "ps/answer_book.h"

#include <gtest/gtest.h>

namespace sumcast::ps {
namespace {

constexpr AnswerBook::Origin kOrigin{8, 9};

::ps::Meta request(int timestamp) {
  ::ps::Meta meta;
  meta.app_id = 0;
  meta.customer_id = 0;
  meta.timestamp = timestamp;
  return meta;
}

::ps::Message response(int number) {
  ::ps::Message message;
  message.meta = request(number);
  message.meta.head = 77;
  return message;
}

TEST(AnswerBook, ALoggedRequestIsHandledOnceAndAnsweredWhenAsked) {
  AnswerBook book;
  const auto number = book.on_logged(kOrigin, request(5));
  ASSERT_TRUE(number);
  EXPECT_LT(*number, 0);
  EXPECT_FALSE(book.on_response(response(*number)));
  const auto asked = book.on_asked(kOrigin, request(5));
  EXPECT_FALSE(asked.handle_as);
  ASSERT_TRUE(asked.answer);
  EXPECT_EQ(asked.answer->message.meta.timestamp, 5);
  EXPECT_EQ(asked.answer->message.meta.head, 77);
  EXPECT_EQ(asked.answer->origin.server, 8);
  EXPECT_EQ(book.size(), 0u);
}

TEST(AnswerBook, AnAnswerThatComesAfterItWasAskedForIsSent) {
  AnswerBook book;
  const auto number = book.on_logged(kOrigin, request(5));
  const auto asked = book.on_asked(kOrigin, request(5));
  EXPECT_FALSE(asked.handle_as);
  EXPECT_FALSE(asked.answer);
  EXPECT_TRUE(book.on_response(response(*number)));
}

TEST(AnswerBook, ANewRequestIsHandled) {
  AnswerBook book;
  const auto asked = book.on_asked(kOrigin, request(5));
  ASSERT_TRUE(asked.handle_as);
  const auto other = book.on_asked({10, 9}, request(5));  // The same worker's, to another server.
  ASSERT_TRUE(other.handle_as);
  EXPECT_NE(*asked.handle_as, *other.handle_as);
  const auto answer = book.on_response(response(*other.handle_as));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->origin.server, 10);
  EXPECT_FALSE(book.on_response(response(*other.handle_as)));  // Answered twice.
}

TEST(AnswerBook, ARequestIsFoundByNameAndByNumber) {
  AnswerBook book;
  const auto number = book.on_logged(kOrigin, request(5));
  ASSERT_TRUE(number);
  EXPECT_EQ(book.number_of(kOrigin, {0, 0, 5}), number);
  EXPECT_FALSE(book.number_of({10, 9}, {0, 0, 5}));
  const auto whose = book.whose(*number);
  ASSERT_TRUE(whose);
  EXPECT_EQ(whose->first.server, 8);
  EXPECT_EQ(whose->first.worker, 9);
  EXPECT_EQ(whose->second, (RequestId{0, 0, 5}));
  EXPECT_FALSE(book.whose(*number - 1));
}

/// Others may wait for what a sum contains, whatever became of who summed it.
TEST(AnswerBook, ASumIsKnownUntilItHasBeenHandled) {
  AnswerBook book;
  ::ps::Meta sum = request(5);
  sum.customer_id = kHarvester;
  const auto number = book.on_logged(kOrigin, sum);
  book.on_settled(kOrigin, {id_of(sum)});
  book.on_worker_lost(kOrigin.worker);
  EXPECT_FALSE(book.on_logged(kOrigin, sum)) << "it would count twice";
  EXPECT_TRUE(book.whose(*number));
  EXPECT_FALSE(book.on_response(response(*number)));
  EXPECT_EQ(book.size(), 0u);
}

/// What it had sent when it died may be read when its death is known.
TEST(AnswerBook, ALostWorkersRequestIsNotHandledAgain) {
  AnswerBook book;
  ASSERT_TRUE(book.on_logged(kOrigin, request(5)));
  book.on_worker_lost(kOrigin.worker);
  for (const int timestamp : {5, 6}) {
    const auto asked = book.on_asked(kOrigin, request(timestamp));
    EXPECT_FALSE(asked.handle_as);
    EXPECT_FALSE(asked.answer);
  }
  const auto logged = book.on_logged(kOrigin, request(7));
  ASSERT_TRUE(logged) << "its server has handled it";
  EXPECT_FALSE(book.on_response(response(*logged)));
  EXPECT_EQ(book.size(), 0u) << "nobody will ask for the answer";
  EXPECT_TRUE(book.on_asked({8, 11}, request(5)).handle_as);
}

TEST(AnswerBook, WhatIsSettledIsForgotten) {
  AnswerBook book;
  const auto number = book.on_logged(kOrigin, request(5));
  book.on_logged(kOrigin, request(6));
  EXPECT_FALSE(book.on_logged(kOrigin, request(6)));
  book.on_settled(kOrigin, {{0, 0, 5}, {0, 0, 4}});
  EXPECT_EQ(book.size(), 1u);
  EXPECT_FALSE(book.on_response(response(*number)));  // A deferred one, too late.
  book.on_worker_lost(9);
  EXPECT_EQ(book.size(), 0u);
}

}  // namespace
}  // namespace sumcast::ps
